// SimReplica: one inference engine in simulated time: a block cache, prompts computed one after the
// other, answers generated beside each other, and a channel to load prefixes from a store. The same
// costs as shared/bench/router's fake replica. Times in ms. One thread.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_set>

#include "proto/model/routing.h"
#include "tests/bench/fleet_sim/block_cache.h"
#include "tests/bench/fleet_sim/work.h"

namespace ember::sim {

struct EngineShape {
  PrefillModel prefill{.linear_ms = 0.1, .context_ms = 0, .base_ms = 2};
  double token_ms = 8;         // of an answer
  uint64_t chunk_tokens = 16;  // of an answer's last piece, for which nobody waits
  size_t cache_blocks = 1500;
  double load_tokens_per_ms = 0;  // from the store; 0: there is none
  double slow_loads = 0;          // share of loads that take five times as long
};

// Blocks that some replica has pushed.
using StoredBlocks = std::unordered_set<uint64_t>;

class SimReplica {
 public:
  SimReplica(const EngineShape& shape, uint64_t tokens_per_block)
      : shape_(shape), tokens_per_block_(tokens_per_block), cache_(shape.cache_blocks) {}

  struct Served {
    double first_token_ms = 0;  // when
    double end_ms = 0;          // when
    uint64_t cached_tokens = 0;
    uint64_t loaded_tokens = 0;  // of those
  };
  // `load`: the prefix that the store has beyond our own is loaded. `luck`: 0..1, of this load.
  Served Serve(const Prompt& prompt, double now, bool load, const StoredBlocks& store, double luck);
  void Finish(const Prompt& prompt) { cache_.Insert(prompt.after); }
  void Kill();

  uint64_t MatchTokens(const Prompt& prompt) const;
  const BlockCache& cache() const { return cache_; }
  bool up = true;
  uint64_t lives = 0;  // a reply of an earlier life never comes

 private:
  const EngineShape shape_;
  const uint64_t tokens_per_block_;
  BlockCache cache_;
  double busy_until_ = 0;
  double channel_until_ = 0;
};

}  // namespace ember::sim
