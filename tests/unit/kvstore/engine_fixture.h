// An engine over a real arena, with a clock that the test moves and seeded randomness.
#pragma once

#include <gtest/gtest.h>

#include "kvstore/engine/shard_engine.h"
#include "kvstore/memory/arena.h"
#include "tests/unit/kvstore/test_segments.h"

namespace ember::kv::testing {

class FakeClock final : public Clock {
 public:
  TimePoint Now() const override { return now_; }
  void Advance(Duration d) { now_ += d; }

 private:
  TimePoint now_{seconds(1000)};
};

// The same time as a wall clock shows it.
class FakeWallClock final : public WallClock {
 public:
  explicit FakeWallClock(const FakeClock* clock) : clock_(clock) {}
  int64_t NowMs() const override { return clock_->Now().time_since_epoch() / milliseconds(1); }

 private:
  const FakeClock* clock_;
};

struct EngineFixture {
  explicit EngineFixture(uint64_t capacity, EngineOptions options = {},
                         std::string_view policy = "lru")
      : arena(*Arena::Make(capacity, false)),
        engine(options, arena.get(), MakeEvictionPolicy(policy, capacity), &clock, &wall_clock,
               &random, &metrics) {}

  // Writes `length` bytes of the segment from what was received so far.
  StatusCode Write(OwnerId owner, const AttemptToken& token, const TestSegment& segment,
                   uint64_t offset, uint64_t length) {
    Result<WriteGrant> grant = engine.BeginWrite(owner, token, offset, length);
    if (!grant.ok()) return grant.status().code();
    std::memcpy(grant->remaining().data(), segment.payload.data() + offset, length);
    grant->Advance(length);
    return StatusCode::kOk;
  }
  StatusCode Put(OwnerId owner, const TestSegment& segment) {
    auto reservation = engine.Reserve(owner, segment.encoded_header);
    if (reservation.code != StatusCode::kOk || reservation.have) return reservation.code;
    const StatusCode written = Write(owner, reservation.token, segment, 0, segment.payload.size());
    if (written != StatusCode::kOk) return written;
    return engine.Commit(owner, reservation.token);
  }
  MissReason MissOf(uint64_t number) { return engine.Get(KeyOf(number)).miss; }

  FakeClock clock;
  FakeWallClock wall_clock{&clock};
  SeededRandom random{7};
  MetricsRegistry registry;
  EngineMetrics metrics{&registry};
  std::unique_ptr<Arena> arena;
  ShardEngine engine;
};

}  // namespace ember::kv::testing
