// What a store node's feed says, as plain values, and who wants to hear it. Made by StoreWatcher
// from the gRPC stream; tests make them by hand.
#pragma once

#include <vector>

#include "proto/base/status.h"
#include "proto/model/block_hash.h"
#include "proto/model/tier.h"

namespace ember::router {

// Numbers a store node in the order of the command line.
using StoreNumber = uint32_t;

struct StoreEvent {
  enum class Kind : uint8_t {
    kSnapshot,  // what was known of this shard, and of shards from `shard_count` on, is void
    kStored,
    kRemoved,
    kCurrent,  // the shard's snapshot is complete
  };
  Kind kind = Kind::kStored;
  uint32_t shard = 0;
  uint32_t shard_count = 0;
  Tier tier = Tier::kMemory;
  BlockKey key;  // of the segment's last block
};

// Called on the router's loop thread, in the order of the node's feed.
class StoreListener {
 public:
  virtual ~StoreListener() = default;
  virtual void OnEvents(StoreNumber store, const std::vector<StoreEvent>& events) = 0;
  // The node is not heard any more; when it is again, snapshots come first.
  virtual void OnLost(StoreNumber store, const Status& why) = 0;
};

}  // namespace ember::router
