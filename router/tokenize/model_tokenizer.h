// ModelTokenizer: one model's tokenizer and chat template, in process (rust/ember_tokens.h).
//
// Concurrency: immutable once loaded; any threads.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "proto/base/status.h"
#include "proto/model/block_hash.h"
#include "router/tokenize/prompt_reason.h"
#include "router/tokenize/rust/ember_tokens.h"

namespace ember::router {

// Which API's members a body has.
enum class PromptApi : uint8_t { kChat, kResponses, kAnthropic, kCompletion };

class ModelTokenizer {
 public:
  struct Rendered {
    std::string text;
    bool cut = false;  // something that is no text follows in the prompt
  };

  // A folder as on a model hub, or a tokenizer.json alone. Takes up to seconds: the fast tokenizer
  // and the rules for cutting are tried against the reference. kInvalid says what is wrong with it.
  static Result<std::shared_ptr<const ModelTokenizer>> Load(const std::string& path,
                                                            bool keep_reference = false);
  ~ModelTokenizer();
  ModelTokenizer(const ModelTokenizer&) = delete;
  ModelTokenizer& operator=(const ModelTokenizer&) = delete;

  // Appends the ids of a text alone. kNone: done; else nothing was appended.
  PromptReason Encode(std::string_view text, std::vector<TokenId>* out,
                      bool by_reference = false) const;
  // The prompt of a request's JSON, which must be no kCompletion.
  PromptReason Render(PromptApi api, std::string_view request, Rendered* out) const;

  bool fast() const { return properties_.fast != 0; }
  bool has_template() const { return properties_.has_template != 0; }
  bool template_is_opaque() const { return properties_.opaque != 0; }
  bool template_uses_time() const { return properties_.uses_time != 0; }
  uint32_t ids() const { return properties_.ids; }
  // Rules of cut_points.h that hold for this tokenizer.
  uint32_t cuts() const { return cuts_; }
  // What the template looks for in texts: one without any of these is to it like any other.
  const std::vector<std::string>& literals() const { return literals_; }
  // What the tokenizer puts before and after a text of its own, where it is asked to.
  const std::vector<TokenId>& before() const { return before_; }
  const std::vector<TokenId>& after() const { return after_; }

 private:
  explicit ModelTokenizer(EmberTokens* model);

  EmberTokens* const model_;
  EmberTokenProperties properties_{};
  uint32_t cuts_ = 0;
  std::vector<std::string> literals_;
  std::vector<TokenId> before_, after_;
};

}  // namespace ember::router
