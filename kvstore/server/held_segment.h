// HeldSegment: a segment pinned for a thread that is not its shard's, which may read the bytes
// where they lie. What is published never changes, so reading needs no lock.
//
// The pin goes back to the shard's thread when the last copy of this value dies. Any thread.
#pragma once

#include <memory>

#include "kvstore/server/shard_door.h"

namespace ember::kv {

struct HeldSegment {
  MissReason miss = MissReason::kNone;  // else nothing below is set
  std::shared_ptr<const Pin> pin;
  ByteSpan header;  // encoded
  ByteSpan payload;
};

// kDeadline, kCancelled: as AskShard.
Result<HeldSegment> HoldSegment(const ShardDoor& shard, const BlockKey& key, Duration timeout);

}  // namespace ember::kv
