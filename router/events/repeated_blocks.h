// RepeatedBlocks: blocks that one holder told of again while it had them. It may have such a block
// twice: engines store equal prompts that run at one moment each for itself. They tell when the
// first copy goes, and nobody knows then whether there is another. A block that is stored later on
// in the same chain shows that there is: so the names of the last few thousand are kept.
//
// A plain value; one thread.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <span>
#include <unordered_set>

#include "proto/model/block_hash.h"
#include "router/index/engine_key.h"

namespace ember::router {

class RepeatedBlocks {
 public:
  static constexpr size_t kMost = 4096;

  // Consecutive blocks of one chain that goes on after `parent`.
  void Remember(std::optional<EngineKey> parent, std::span<const EngineKey> keys,
                std::span<const BlockHash> names);
  void OnStored(std::span<const EngineKey> keys);
  // One copy of them is gone.
  void OnRemoved(std::span<const EngineKey> keys);

  struct Block {
    EngineKey key;
    BlockHash name;
    std::optional<EngineKey> parent;
  };
  // What was removed since it was stored, by its key or its name.
  bool any_removed() const { return !removed_.empty(); }
  std::optional<Block> Removed(EngineKey key) const;
  std::optional<Block> Removed(const BlockHash& name) const;

  // Nothing was removed since the chain up to that block was followed, so that there is nothing new
  // to be found in it. Of a few chains, those that grow.
  bool was_followed(EngineKey key) const { return followed_.contains(key); }
  void Followed(EngineKey key);

  void Clear();

 private:
  struct Kept {
    BlockHash name;
    std::optional<EngineKey> parent;
  };
  std::map<EngineKey, Kept> blocks_;
  std::map<BlockHash, EngineKey> removed_;
  std::deque<EngineKey> order_;  // oldest first
  std::unordered_set<EngineKey> followed_;
};

}  // namespace ember::router
