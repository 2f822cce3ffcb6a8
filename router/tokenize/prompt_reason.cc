#include "router/tokenize/prompt_reason.h"

#include <array>
#include <cstddef>

namespace ember::router {

const char* PromptReasonName(PromptReason reason) {
  static constexpr std::array<const char*, kPromptReasons> kNames = {
      "none",     "invalid", "no_template", "template",     "request_template", "unsupported",
      "stateful", "panic",   "no_prompt",   "no_tokenizer", "too_short",        "too_large",
      "too_deep", "timeout", "busy",        "distrusted",   "truncated"};
  return kNames[static_cast<size_t>(reason)];
}

}  // namespace ember::router
