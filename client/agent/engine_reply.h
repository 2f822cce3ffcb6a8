// What llama-server's JSON replies say, as plain values. The readers are pure, bounded and safe on
// any bytes: what is missing or of another type is an error, never a guess. Any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "proto/base/status.h"
#include "proto/model/block_hash.h"

namespace ember::agent {

// GET /props.
struct EngineProps {
  std::string build;       // "b4711-0123abcd"
  std::string model_path;  // as the engine was told
  std::string alias;
  uint32_t context_tokens = 0;  // of one slot
  uint32_t slots = 0;
  bool has_media = false;  // takes images, audio or video
};
Result<EngineProps> ReadProps(std::string_view json);

// GET /v1/models: bytes of the model's tensors.
Result<uint64_t> ReadModelBytes(std::string_view json);
// GET /lora-adapters: true when any adapter is loaded.
Result<bool> ReadHasAdapters(std::string_view json);
// POST /tokenize.
Result<std::vector<TokenId>> ReadTokens(std::string_view json);
// POST /apply-template.
Result<std::string> ReadPrompt(std::string_view json);

// POST /slots/N?action=save or restore.
struct SlotAction {
  uint32_t tokens = 0;
  uint64_t bytes = 0;
};
Result<SlotAction> ReadSlotAction(std::string_view json);

// What the engine counted for one completion.
struct EngineTimings {
  uint64_t cached_tokens = 0;    // cache_n
  uint64_t computed_tokens = 0;  // prompt_n
  double prompt_ms = 0;
  uint64_t predicted_tokens = 0;
};
// From a whole reply or from one event of a stream; nothing when it holds no timings.
std::optional<EngineTimings> ReadTimings(std::string_view json);

// The message in an error reply of the engine, or the start of the reply itself; for logs.
std::string ReadErrorMessage(std::string_view json);

}  // namespace ember::agent
