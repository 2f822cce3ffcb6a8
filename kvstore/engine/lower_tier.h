// LowerTier: what lies below the memory, as the engine sees it; kvstore/disk implements it.
//
// Called on the shard's thread from within the engine: it must not call the engine back, except to
// ask, and what it does delays the put or get at hand.
#pragma once

#include <cstdint>

#include "proto/model/block_hash.h"

namespace ember::kv {

class LowerTier {
 public:
  virtual ~LowerTier() = default;

  // A segment of so many bytes was put, or (`used_again`) used after that, and is in memory only.
  // True: it is cared for, and need not be offered again.
  virtual bool Offer(const BlockKey& key, uint64_t bytes, bool used_again) = 0;
};

}  // namespace ember::kv
