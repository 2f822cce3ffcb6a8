// PresumedCache: what a replica that reports nothing is presumed to hold: the blocks of the prompts
// that were sent to it, as an engine keeps them that evicts the least recently used block first, a
// chain's end before its start.
//
// Its capacity is the engine's own where that is known. Where it is not, replies teach it: a block
// that turned out to be evicted was as old as any that is left, so everything older is gone too.
// It says what became held and what no longer is; whoever owns it tells the index.
// Concurrency: one thread (the router's loop).
#pragma once

#include <cstdint>
#include <list>
#include <span>
#include <unordered_map>
#include <vector>

#include "proto/model/block_hash.h"

namespace ember::router {

class PresumedCache {
 public:
  // When a chain's blocks were last used before now: from block `from` on at time `used`.
  struct Use {
    size_t from = 0;
    uint64_t used = 0;  // 0: never
  };
  struct Change {
    std::vector<BlockHash> held;
    std::vector<BlockHash> gone;
    std::vector<Use> before;  // ascending `from`
  };

  // `capacity`: of the engine in blocks; 0: unknown.
  explicit PresumedCache(size_t capacity = 0) { SetCapacity(capacity); }

  // Takes effect with the next Add.
  void SetCapacity(size_t capacity);
  // A prompt of this chain was sent.
  Change Add(std::span<const BlockHash> chain);
  // The engine had only the first `found` blocks of the chain that Add returned `before` for.
  // Returns what is therefore gone as well.
  std::vector<BlockHash> Contradict(std::span<const Use> before, size_t found);
  // Everything is gone; returns what was held.
  std::vector<BlockHash> TakeAll();

  size_t blocks() const { return nodes_.size(); }
  size_t capacity() const { return capacity_; }

 private:
  struct Node {
    BlockHash hash;
    uint64_t used;
  };
  using Nodes = std::list<Node>;

  void DropOldest(std::vector<BlockHash>* gone);

  Nodes nodes_;  // most recently used first; `used` descends
  std::unordered_map<BlockHash, Nodes::iterator> index_;
  size_t capacity_ = 0;
  bool capacity_known_ = false;
  uint64_t now_ = 0;  // number of the last Add
};

}  // namespace ember::router
