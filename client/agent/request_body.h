// RequestBody: what the agent must know of a completion request, and the one change it makes to it.
// Pure functions over bytes from outside; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "proto/base/status.h"
#include "proto/model/block_hash.h"

namespace ember::agent {

enum class CompletionKind : uint8_t { kChat, kText };

// The paths whose requests the agent serves from the cache.
std::optional<CompletionKind> CompletionKindOf(std::string_view path);

struct RequestBody {
  CompletionKind kind = CompletionKind::kText;
  bool stream = false;
  bool cache_prompt = true;  // false: the client asked for a recompute
  bool several = false;  // answers: all but the first are computed in slots of the engine's choice
  std::string prompt;    // of a text completion; a chat's is made by the engine
  std::vector<TokenId> ids;  // its prompt, if the client gave ids
  // Why the cache must stay out of this request ("adapter", "media", ...); empty: it need
  // not. Such a request still runs in a slot of its own, whose content is not believed afterwards.
  std::string bypass;
};

// kInvalid when the body is not a JSON object: every engine would refuse it too.
Result<RequestBody> ReadRequestBody(CompletionKind kind, std::string_view body);

// The same bytes with "id_slot" (and "cache_prompt", if given) added before the closing brace:
// llama-server takes the last of several fields of one name, so ours count.
// The body must have passed ReadRequestBody.
std::string AddSlot(std::string_view body, uint32_t slot, std::optional<bool> cache_prompt);

}  // namespace ember::agent
