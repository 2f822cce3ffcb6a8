// What PrefixIndex answers. Plain values.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "proto/model/block_hash.h"
#include "router/index/holder.h"

namespace ember::router {

// How much of one chain a replica holds, unbroken from the start.
struct HolderMatch {
  HolderId holder = kNoHolder;
  uint32_t device_blocks = 0;
  uint32_t any_tier_blocks = 0;  // slower tiers counted as well; never less than device_blocks
};

struct PrefixLookup {
  std::vector<HolderMatch> holders;  // replicas that have at least the first block, in no order
  uint32_t store_blocks = 0;         // all store nodes together, and what is presumed to be stored

  // Zeros when the holder has nothing.
  HolderMatch Of(HolderId holder) const {
    for (const HolderMatch& match : holders) {
      if (match.holder == holder) return match;
    }
    return {.holder = holder};
  }
};

// One cache group's view of a prompt. Models with several groups (full and sliding-window
// attention) can use a prefix only where every group has what it needs of it.
struct GroupChain {
  std::span<const BlockHash> chain;
  uint32_t tokens_per_block = 0;
  uint32_t window_tokens = 0;  // the last so many tokens of the prefix are needed; 0: all
};

// As HolderMatch, in tokens, over all groups.
struct GroupMatch {
  HolderId holder = kNoHolder;
  uint64_t device_tokens = 0;
  uint64_t any_tier_tokens = 0;
};

}  // namespace ember::router
