// What the router reads in JSON that others made: whether a request's body can be a request at all,
// the counts in a reply, and whether an event is an error. Pure functions, bounded, safe on any
// bytes; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "proto/base/status.h"

namespace ember::router {

// Bodies up to this size are checked whole. Of larger ones only how they begin and end: a whole
// check costs as much time as half of a plain proxy's own work, and a body that is broken further
// inside costs a replica an error message at worst.
inline constexpr size_t kMaxCheckedBody = 8u << 10;

// kInvalid, with the place or kind of error, unless the text is (as far as it is checked) a JSON
// object.
Status CheckIsObject(std::string_view body);

struct ReplyUsage {
  uint64_t cached_tokens = 0;    // of the prompt, reused
  uint64_t computed_tokens = 0;  // of the prompt, prefilled
  // False: the engine told only how long the prompt was, here all computed. Many do unless asked,
  // and even those that tell how much was cached are silent when that was nothing.
  bool counted = true;
  uint64_t output_tokens = 0;  // of the answer; 0: it has none, or its length was not told
};

// From a whole reply or one event: `timings` (llama.cpp) or `usage` (OpenAI, of responses too;
// Anthropic).
// Nothing when the text has neither.
std::optional<ReplyUsage> ReadUsage(std::string_view json);

// Whose fault an event of a stream says that its end is; kNone: it is no error.
enum class ErrorEvent : uint8_t { kNone, kClient, kServer };
// Of chats and completions (`error`, `"object":"error"`), messages and responses.
ErrorEvent ReadErrorEvent(std::string_view json);

}  // namespace ember::router
