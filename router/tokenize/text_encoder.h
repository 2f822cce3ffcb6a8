// TextEncoder: tokenizes the spans of a text (text_walk.h) after a known beginning, place by place,
// so that what it finds can be remembered. Pure: works on what it is given; any thread.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "proto/base/time.h"
#include "router/tokenize/model_tokenizer.h"
#include "router/tokenize/token_cache.h"

namespace ember::router {

struct EncodedText {
  // What is known where a span ends.
  struct Place {
    size_t span;                  // its index
    std::vector<TokenId> tokens;  // since the place before
    std::string pending, last_of_slot;
  };
  PromptReason reason = PromptReason::kNone;
  // A slot's text has one of the literals that the template looks for, so that it may not be a
  // slot. The places before it are good.
  bool literal_found = false;
  std::vector<Place> places;
  std::vector<TokenId> tail;  // after the last place, to the end of the text
};

class TextEncoder {
 public:
  // Goes on from `known`. `head`: tokens before all others. `find_literals`: in slots.
  TextEncoder(const ModelTokenizer& tokenizer, const KnownText& known, std::vector<TokenId> head,
              bool find_literals);
  EncodedText Encode(std::span<const TextSpan> spans, TimePoint deadline) &&;

 private:
  PromptReason Add(const TextSpan& span);
  bool HasLiteral(std::string_view text);
  // Tokenizes what is pending up to the last place where it may be cut.
  PromptReason Settle();

  const ModelTokenizer& tokenizer_;
  std::string pending_;
  std::string last_of_slot_;
  std::vector<TokenId> tokens_;
  size_t longest_literal_ = 0;
  size_t searched_ = 0;  // of pending_: there is no cut before
  bool literal_found_ = false;
};

}  // namespace ember::router
