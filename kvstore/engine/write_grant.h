// Attempt: one open two-phase put. WriteGrant: the permission to fill a part of its memory.
#pragma once

#include "kvstore/engine/entry.h"
#include "proto/base/time.h"

namespace ember::kv {

class ShardEngine;

// 128 random bits that only the reserving client knows.
struct AttemptToken {
  uint64_t high = 0;
  uint64_t low = 0;
  auto operator<=>(const AttemptToken&) const = default;
};

// Engine-internal.
struct Attempt {
  Entry entry;            // as it will be published
  uint64_t received = 0;  // payload bytes, from the start
  ChecksumStream hash;    // of those
  TimePoint last_progress;
  bool writing = false;  // a WriteGrant is out: the memory must stay
  bool expired = false;  // or purged: gone for everybody but the WriteGrant
  bool invalid = false;  // a write broke the rules; commit says so
};

// Move-only. The memory behind it stays reserved while it is held, even when the attempt's deadline
// passes meanwhile; so hold one only as long as bytes are arriving. The shard's thread only.
class WriteGrant {
 public:
  WriteGrant(ShardEngine* engine, AttemptToken token, Attempt* attempt, MutableByteSpan memory)
      : engine_(engine), token_(token), attempt_(attempt), memory_(memory) {}
  WriteGrant(WriteGrant&& other) noexcept;
  WriteGrant& operator=(WriteGrant&&) = delete;
  ~WriteGrant();

  // Where the next bytes go. Empty when all have come.
  MutableByteSpan remaining() const { return memory_; }
  // `n` bytes are in remaining(). They are hashed now, while they are in the cache.
  void Advance(size_t n);
  // True: nobody waits for the rest; drop the grant.
  bool expired() const { return attempt_->expired; }

 private:
  ShardEngine* engine_;
  AttemptToken token_;
  Attempt* attempt_;
  MutableByteSpan memory_;
};

}  // namespace ember::kv
