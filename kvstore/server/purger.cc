#include "kvstore/server/purger.h"

#include <algorithm>

namespace ember::kv {

namespace {

// Gone from this run at once; the record is what keeps it gone after a restart.
io::Task<Result<uint64_t>> PurgeOn(const ShardDoor& shard, PurgeScope scope, uint64_t epoch) {
  const uint64_t dropped = shard.engine->Purge(scope, epoch);
  if (shard.disk != nullptr) {
    const Status recorded = co_await shard.disk->RecordPurge(scope, epoch);
    if (!recorded.ok()) {
      co_return recorded.WithContext("purged until the node restarts; it could not be recorded");
    }
  }
  co_return dropped;
}

}  // namespace

// The shards remember their epochs, those with a disk tier over a restart.
Result<uint64_t> Purger::NextEpoch(Duration timeout) const {
  uint64_t newest = 0;
  for (const ShardDoor& shard : shards_) {
    Result<uint64_t> epoch = AskShard<uint64_t>(shard, timeout, [](ShardEngine& engine) {
      return Result<uint64_t>(engine.tombstones().epoch());
    });
    if (!epoch.ok()) return epoch;
    newest = std::max(newest, *epoch);
  }
  return newest + 1;
}

Result<Purger::Outcome> Purger::Purge(const PurgeScope& scope, Duration timeout) {
  const std::lock_guard lock(mutex_);
  Result<uint64_t> epoch = NextEpoch(timeout);
  if (!epoch.ok()) return epoch.status();
  Outcome outcome{.epoch = *epoch, .segments = 0, .durable = true};
  for (const ShardDoor& shard : shards_) {
    Result<uint64_t> dropped = AwaitShard<uint64_t>(
        shard, timeout,
        [scope, epoch = *epoch](const ShardDoor& door) { return PurgeOn(door, scope, epoch); });
    if (!dropped.ok()) return dropped.status();
    outcome.segments += *dropped;
    outcome.durable = outcome.durable && shard.disk != nullptr;
  }
  return outcome;
}

}  // namespace ember::kv
