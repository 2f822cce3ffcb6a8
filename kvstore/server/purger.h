// Purger: a purge of the whole node: one epoch for all shards, larger than any before, done when
// every shard has done it.
//
// Concurrency: any thread but a shard's; one purge at a time. The shards outlive it.
#pragma once

#include <mutex>

#include "kvstore/server/shard_door.h"

namespace ember::kv {

class Purger {
 public:
  explicit Purger(std::vector<ShardDoor> shards) : shards_(std::move(shards)) {}

  struct Outcome {
    uint64_t epoch = 0;
    uint64_t segments = 0;  // dropped, from memory or disk
    bool durable = false;   // survives a restart
  };
  // kDeadline: some shard did not answer; it may still do it. Others: it could not be made durable.
  // Ask again: a repeated purge harms nothing.
  Result<Outcome> Purge(const PurgeScope& scope, Duration timeout);

 private:
  Result<uint64_t> NextEpoch(Duration timeout) const;

  const std::vector<ShardDoor> shards_;
  std::mutex mutex_;
};

}  // namespace ember::kv
