// PromptReason: why a request's prompt is not known in process. Every one is counted; none is an
// error of the request.
#pragma once

#include <cstdint>

namespace ember::router {

enum class PromptReason : uint8_t {
  kNone = 0,
  // As in rust/ember_tokens.h.
  kInvalid = 1,          // no JSON, or not the members that such a request has
  kNoTemplate = 2,       // a chat for a model without a chat template
  kTemplate = 3,         // the template raised an error
  kRequestTemplate = 4,  // the request brings its own template
  kUnsupported = 5,      // embedded prompts, unknown kinds of items, numbers that only Python keeps
  kStateful = 6,         // the prompt depends on what the engine remembers
  kPanic = 7,            // a library failed
  // Ours.
  kNoPrompt = 8,     // the body has none of the members that carry a prompt
  kNoTokenizer = 9,  // none is configured for the model
  kTooShort = 10,    // not worth a match
  kTooLarge = 11,
  kTooDeep = 12,
  kTimeout = 13,
  kBusy = 14,        // the worker has enough to do
  kDistrusted = 15,  // the parity probe found other tokens than the engine's
  kTruncated = 16,   // the engine leaves out some of it
};
inline constexpr int kPromptReasons = 17;

const char* PromptReasonName(PromptReason reason);

}  // namespace ember::router
