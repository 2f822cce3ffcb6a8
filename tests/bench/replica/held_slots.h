// HeldSlots: a block cache's content as an agent tells it: a slot for each chain of blocks that no
// other one contains. One thread.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "proto/model/block_hash.h"
#include "tests/bench/fleet_sim/block_cache.h"

namespace ember::bench {

class HeldSlots {
 public:
  using Change = std::pair<uint32_t, std::vector<BlockHash>>;  // slot, what it holds now

  // The cache was just given that chain, whose blocks it knows by their std::hash, and has evicted
  // others for it. What changed.
  std::vector<Change> Update(const sim::BlockCache& cache, std::span<const BlockHash> added);
  // The cache is empty.
  std::vector<Change> Clear();

 private:
  // Another slot than `but` has all of the chain.
  bool Contained(std::span<const BlockHash> chain, size_t but) const;
  // The slot for a chain: that of its beginning, else a free one.
  size_t SlotFor(std::span<const BlockHash> chain) const;

  std::vector<std::vector<BlockHash>> slots_;  // empty: free
};

}  // namespace ember::bench
