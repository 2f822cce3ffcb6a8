// RemovedBlocks: blocks of which one holder told last that it has them no longer: what was presumed
// of it beyond the first of them is gone, too. Bounded: a later one takes the place of an earlier
// one, and then too much is presumed.
//
// A plain value; one thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "proto/model/block_hash.h"

namespace ember::router {

class RemovedBlocks {
 public:
  void Add(const BlockHash& block);
  // They are there again, or will be. Returns those that had been removed.
  std::vector<BlockHash> Erase(std::span<const BlockHash> blocks);
  void Clear() { words_.clear(); }
  bool empty() const { return words_.empty(); }
  // How many of the chain's first `blocks` blocks come before the first removed one.
  size_t Before(std::span<const BlockHash> chain, size_t blocks) const;

 private:
  std::vector<uint64_t> words_;  // of their names, by their last bits; 0: none
};

}  // namespace ember::router
