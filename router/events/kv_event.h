// KvEvent: what an inference engine says about its KV cache, as plain values. A batch is one
// message of its event stream, in the engine's order.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "proto/base/checksum.h"
#include "proto/model/block_hash.h"
#include "router/index/engine_key.h"
#include "router/index/holder.h"

namespace ember::router {

// What a block depends on beside its tokens: an image, prompt embeddings, a salt.
struct KvExtra {
  uint32_t block = 0;               // of the event
  std::optional<std::string> text;  // there is this one text and nothing else
  Checksum digest{};                // of all of it
};

// Whether only the last block of a prefix is needed, as it sums up all that is before it.
inline bool IsRecurrent(std::string_view group_kind) {
  return group_kind.starts_with("mamba") || group_kind.starts_with("recurrent") ||
         group_kind.starts_with("linear_attention");
}

// `keys[i]` names tokens [i*block_size, (i+1)*block_size), in a chain that continues `parent`.
// Where blocks were left out (there are `places`), i is places[i].
struct KvStored {
  HolderTier tier = HolderTier::kDevice;
  uint32_t group = 0;          // cache group of a hybrid model
  std::string group_kind;      // "full_attention", "sliding_window", "mamba" ...; may be empty
  uint32_t window_tokens = 0;  // 0: not a window
  uint32_t block_size = 0;     // tokens
  std::string adapter;         // empty: the base model
  std::string salt;            // of the chain's first block; also see `extras`
  std::optional<EngineKey> parent;
  std::vector<EngineKey> keys;
  std::vector<TokenId> tokens;   // whole blocks, or none: the blocks are named only
  std::vector<KvExtra> extras;   // ascending by block
  std::vector<uint32_t> places;  // ascending; empty: every block of the tokens has a key
  bool placed = true;            // false: blocks were left out, and nobody knows which
};

struct KvRemoved {
  HolderTier tier = HolderTier::kDevice;
  std::vector<EngineKey> keys;
};

// The engine emptied its whole cache.
struct KvCleared {};

using KvEvent = std::variant<KvStored, KvRemoved, KvCleared>;

struct KvEventBatch {
  double timestamp = 0;          // seconds since 1970 on the engine's clock
  std::optional<uint32_t> rank;  // data-parallel rank; nothing: the one of the endpoint
  std::vector<KvEvent> events;   // each of at most kMaxBlocksPerEvent blocks, sparse ones of
                                 // kMaxSparseBlocks
  uint32_t unknown_types = 0;    // events of types that are not known here, left out
  uint32_t unknown_media = 0;    // events on a medium not known here, taken for the slowest tier
  uint32_t unusable = 0;         // Stored events that contradict themselves, left out
};

}  // namespace ember::router
