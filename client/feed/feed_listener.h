// FeedListener: who wants to know what a store node holds; FeedReader tells it.
#pragma once

#include "proto/base/status.h"
#include "proto/model/purge_scope.h"
#include "proto/model/segment.h"
#include "proto/model/tier.h"

namespace ember {

// A segment in one tier; it may be in both.
struct FeedItem {
  BlockKey key;
  Tier tier = Tier::kMemory;
  GenerationId generation;
};

// Called one event at a time, from one thread, the reader's. What takes long here makes the reader
// fall behind; it then gets a new snapshot, and the node never notices.
class FeedListener {
 public:
  virtual ~FeedListener() = default;

  // What was known of this shard is void, also of shards from `shard_count` on: a snapshot follows,
  // as OnStored, until OnCurrent.
  virtual void OnSnapshot(uint32_t shard, uint32_t shard_count) = 0;
  // May be told again of what is known; the last word holds.
  virtual void OnStored(uint32_t shard, const FeedItem& item) = 0;
  // May be told of what is not known. `reason` as a miss would say it: "evicted".
  virtual void OnRemoved(uint32_t shard, const FeedItem& item, std::string_view reason) = 0;
  // After the removal of everything that it took.
  virtual void OnPurged(uint32_t shard, const PurgeScope& scope, uint64_t epoch) = 0;
  // The snapshot is complete.
  virtual void OnCurrent(uint32_t shard) = 0;
  // One message of the node has been told to its end: for who gathers before it acts.
  virtual void OnBatchEnd() {}
  // The node is not heard any more; what is known may be old until it is heard again. `why` for
  // logs.
  virtual void OnLost(const Status& why) = 0;
};

}  // namespace ember
