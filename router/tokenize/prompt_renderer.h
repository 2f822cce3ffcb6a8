// PromptRenderer: a prompt's text as pieces: what its template prints, with views of the body where
// the template prints long texts. What was printed for an equal request (but for those texts) is
// remembered.
//
// RenderPieces is pure; the rest is for the router's loop thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "proto/base/digest_lru.h"
#include "router/tokenize/prompt_outline.h"
#include "router/tokenize/slot_marks.h"
#include "router/tokenize/text_walk.h"

namespace ember::router {

// What a template printed; immutable.
struct RenderedPrompt {
  PromptReason reason = PromptReason::kNone;
  std::string text;               // with marks
  std::vector<TextPiece> pieces;  // of the text
  bool cut = false;               // something that is no text follows

  // Runs the template. A mark that was changed by it is kTemplate.
  static RenderedPrompt Of(const ModelTokenizer& tokenizer, PromptApi api,
                           const PromptOutline& outline);
  // Views of this and of the slots.
  std::vector<PromptPiece> PiecesWith(const std::vector<std::string_view>& slots) const;
};

class PromptRenderer {
 public:
  explicit PromptRenderer(size_t max_bytes) : max_bytes_(max_bytes) {}

  // What distinguishes a request: its outline without the texts in the slots. `root`: the model's.
  Checksum NameOf(const Checksum& root, const ModelTokenizer& tokenizer, PromptApi api,
                  const PromptOutline& outline) const;
  std::shared_ptr<const RenderedPrompt> Find(const Checksum& name);
  void Put(const Checksum& name, std::shared_ptr<const RenderedPrompt> rendered);

 private:
  static size_t CostOf(const RenderedPrompt& rendered);

  const size_t max_bytes_;
  size_t bytes_ = 0;
  SecretHash secret_;
  DigestLru<std::shared_ptr<const RenderedPrompt>> known_;
};

}  // namespace ember::router
