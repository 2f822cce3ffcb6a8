// PutStream: segments that arrive in pieces on a thread that is not a shard's: header, chunks, next
// header. It is the owner of the puts that it opens in the shards' engines; they end with it.
//
// One chunk at a time: it is copied and hashed on the shard's thread before the next is taken, so a
// stream holds one chunk, and a slow shard holds its writer back.
// At the end, where the writer wants it, what was stored is made durable, all of a shard at once.
// Concurrency: one thread at a time, not a shard's.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "kvstore/server/shard_door.h"

namespace ember::kv {

class PutStream {
 public:
  static constexpr size_t kMaxSegments = 4096;
  static constexpr size_t kMaxChunkBytes = 1 << 20;

  struct Verdict {
    StatusCode code = StatusCode::kOk;  // kOk: it is stored
    bool had = false;                   // it was there before
    AckLevel level = AckLevel::kMemory;
  };

  // `owner`: nobody else's. `clock` and the shards outlive it.
  PutStream(std::span<const ShardDoor> shards, OwnerId owner, const Clock* clock,
            TimePoint deadline);
  ~PutStream();
  PutStream(const PutStream&) = delete;

  // The next segment begins, an earlier one ends. kInvalid: too many segments, or a header too
  // long: the stream is to be broken off. A header that can't be read is a verdict.
  Status Begin(std::string header);
  // The next bytes of the segment that began last; thrown away when it was refused. kInvalid: there
  // is none, or it is too long.
  Status Write(std::string chunk);
  // Ends the last segment. One verdict for each; of level `ack` where that could be reached.
  // kDeadline, kCancelled: as AskShard.
  Result<std::vector<Verdict>> Finish(AckLevel ack);

 private:
  struct Open {
    const ShardDoor* shard = nullptr;
    BlockKey key;
    AttemptToken token;
    uint64_t written = 0;
  };

  struct Stored {
    const ShardDoor* shard = nullptr;
    BlockKey key;
    size_t verdict = 0;
  };

  Status Commit();
  void NoteStored(const ShardDoor* shard, const BlockKey& key) {
    stored_.push_back({shard, key, verdicts_.size() - 1});
  }
  Status Persist();
  Duration left() const;

  const std::span<const ShardDoor> shards_;
  const OwnerId owner_;
  const Clock* const clock_;
  const TimePoint deadline_;
  std::vector<Verdict> verdicts_;
  std::vector<Stored> stored_;
  std::optional<Open> open_;
};

}  // namespace ember::kv
