// The work of the index benchmark: 64 system prompts of 32 blocks; a session is one of them and 96
// blocks of its own, stored by one worker in events of 16 blocks. Everything is a function of the
// numbers given, as in the peers' bench of the same work.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "router/index/engine_key.h"
#include "router/index/held_chain.h"

namespace ember::router {

struct StoredEvent {
  uint32_t worker = 0;
  std::optional<EngineKey> parent;
  std::vector<EngineKey> keys;
  BlockChain hashes;
};

struct RemovedEvent {
  uint32_t worker = 0;
  std::vector<EngineKey> keys;
};

struct IndexWorkload {
  std::vector<StoredEvent> events;
  std::vector<BlockChain> hits;    // whole sessions
  std::vector<BlockChain> shared;  // a system prompt, and 96 blocks that nobody has
  std::vector<BlockChain> misses;
  std::vector<RemovedEvent> removals;
  size_t blocks = 0;

  static IndexWorkload Of(size_t blocks, uint32_t workers);
  // The same events cut to single blocks, those of up to 1,024 sessions in turn: what engines
  // publish while they generate, at its worst.
  std::vector<StoredEvent> Interleaved() const;
};

}  // namespace ember::router
