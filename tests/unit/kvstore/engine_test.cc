#include "tests/unit/kvstore/engine_fixture.h"

namespace ember::kv::testing {
namespace {

constexpr OwnerId kAlice = 1;
constexpr OwnerId kBob = 2;

TEST(EngineTest, APutIsInvisibleUntilItIsCommitted) {
  EngineFixture f(1 << 20);
  const TestSegment segment = MakeSegment(1, 10000);
  auto reservation = f.engine.Reserve(kAlice, segment.encoded_header);
  ASSERT_EQ(reservation.code, StatusCode::kOk);
  EXPECT_EQ(f.MissOf(1), MissReason::kNeverStored);
  ASSERT_EQ(f.Write(kAlice, reservation.token, segment, 0, 4000), StatusCode::kOk);
  ASSERT_EQ(f.Write(kAlice, reservation.token, segment, 4000, 6000), StatusCode::kOk);
  EXPECT_EQ(f.MissOf(1), MissReason::kNeverStored);
  EXPECT_EQ(f.engine.Commit(kAlice, reservation.token), StatusCode::kOk);
  auto found = f.engine.Get(KeyOf(1));
  ASSERT_EQ(found.miss, MissReason::kNone);
  EXPECT_TRUE(IsPayloadOf(1, found.pin.payload()));
  EXPECT_EQ(*DecodeSegmentHeader(found.pin.header()), segment.header);
  EXPECT_EQ(f.engine.attempts(), 0u);
  EXPECT_EQ(f.engine.reserved_bytes(), 0u);
}

TEST(EngineTest, CommitRefusesWrongOrMissingBytes) {
  EngineFixture f(1 << 20);
  TestSegment segment = MakeSegment(1, 5000);
  segment.payload[4999] ^= std::byte{1};
  EXPECT_EQ(f.Put(kAlice, segment), StatusCode::kCorrupt);

  auto reservation = f.engine.Reserve(kAlice, segment.encoded_header);
  ASSERT_EQ(f.Write(kAlice, reservation.token, segment, 0, 4999), StatusCode::kOk);
  EXPECT_EQ(f.engine.Commit(kAlice, reservation.token), StatusCode::kInvalid);
  EXPECT_EQ(f.MissOf(1), MissReason::kNeverStored);
  EXPECT_EQ(f.arena->used(), 0u);
  EXPECT_EQ(f.metrics.put_corrupt.value(), 1u);
}

TEST(EngineTest, WritesOutOfOrderOrPastTheEndSpoilTheirAttemptOnly) {
  EngineFixture f(1 << 20);
  const TestSegment segment = MakeSegment(1, 5000);
  auto reservation = f.engine.Reserve(kAlice, segment.encoded_header);
  EXPECT_EQ(f.engine.BeginWrite(kAlice, reservation.token, 1, 10).status().code(),
            StatusCode::kInvalid);
  EXPECT_EQ(f.engine.BeginWrite(kAlice, reservation.token, 0, 5000).status().code(),
            StatusCode::kInvalid);
  EXPECT_EQ(f.engine.Commit(kAlice, reservation.token), StatusCode::kInvalid);
  auto second = f.engine.Reserve(kAlice, segment.encoded_header);
  EXPECT_EQ(f.engine.BeginWrite(kAlice, second.token, 0, 5001).status().code(),
            StatusCode::kInvalid);
  f.engine.Abort(kAlice, second.token);
  EXPECT_EQ(f.Put(kAlice, segment), StatusCode::kOk);
}

TEST(EngineTest, ATokenIsOnlyItsOwners) {
  EngineFixture f(1 << 20);
  const TestSegment segment = MakeSegment(1, 5000);
  auto reservation = f.engine.Reserve(kAlice, segment.encoded_header);
  EXPECT_EQ(f.engine.BeginWrite(kBob, reservation.token, 0, 1).status().code(),
            StatusCode::kNotFound);
  EXPECT_EQ(f.engine.Commit(kBob, reservation.token), StatusCode::kNotFound);
  f.engine.Abort(kBob, reservation.token);
  f.engine.Disconnect(kBob);
  EXPECT_EQ(f.engine.attempts(), 1u);
}

// C3: the writer dies in the middle; the space is back and the key free at once.
TEST(EngineTest, APutEndsWithItsOwner) {
  EngineFixture f(1 << 20);
  const TestSegment segment = MakeSegment(1, 100000);
  auto reservation = f.engine.Reserve(kAlice, segment.encoded_header);
  ASSERT_EQ(f.Write(kAlice, reservation.token, segment, 0, 50000), StatusCode::kOk);
  EXPECT_EQ(f.engine.Reserve(kBob, segment.encoded_header).code, StatusCode::kBusy);
  f.engine.Disconnect(kAlice);
  EXPECT_EQ(f.arena->used(), 0u);
  EXPECT_EQ(f.engine.attempts(), 0u);
  EXPECT_EQ(f.Put(kBob, segment), StatusCode::kOk);
}

TEST(EngineTest, AttemptsExpire) {
  EngineFixture f(1 << 20);
  const TestSegment segment = MakeSegment(1, 1000);
  auto reservation = f.engine.Reserve(kAlice, segment.encoded_header);
  f.clock.Advance(f.engine.options().attempt_deadline);
  f.engine.ExpireDue();
  EXPECT_EQ(f.engine.Commit(kAlice, reservation.token), StatusCode::kNotFound);
  EXPECT_EQ(f.arena->used(), 0u);
  EXPECT_EQ(f.metrics.put_expired.value(), 1u);
}

TEST(EngineTest, MemoryOfAnExpiredAttemptStaysWhileBytesArriveInIt) {
  EngineFixture f(1 << 20);
  const TestSegment segment = MakeSegment(1, 1000);
  auto reservation = f.engine.Reserve(kAlice, segment.encoded_header);
  {
    Result<WriteGrant> grant = f.engine.BeginWrite(kAlice, reservation.token, 0, 1000);
    ASSERT_TRUE(grant.ok());
    f.clock.Advance(f.engine.options().attempt_deadline);
    f.engine.ExpireDue();
    f.engine.ExpireDue();
    EXPECT_TRUE(grant->expired());
    EXPECT_GT(f.arena->used(), 0u);
    // The key is free meanwhile.
    EXPECT_EQ(f.Put(kBob, segment), StatusCode::kOk);
    grant->Advance(10);
  }
  EXPECT_EQ(f.engine.attempts(), 0u);
  EXPECT_EQ(f.engine.segments(), 1u);
  EXPECT_EQ(f.engine.Commit(kAlice, reservation.token), StatusCode::kNotFound);
  EXPECT_EQ(f.metrics.put_expired.value(), 1u);
}

// C4: duplicates. The first complete put wins; what comes later costs nothing.
TEST(EngineTest, TheFirstCompletePutWins) {
  EngineFixture f(1 << 20);
  const TestSegment mine = MakeSegment(1, 5000, 0);
  const TestSegment yours = MakeSegment(1, 5000, 1);
  ASSERT_EQ(f.Put(kAlice, mine), StatusCode::kOk);
  auto again = f.engine.Reserve(kBob, yours.encoded_header);
  EXPECT_TRUE(again.have);
  EXPECT_TRUE(IsPayloadOf(1, f.engine.Get(KeyOf(1)).pin.payload()));
}

TEST(EngineTest, AStalledWriterLosesItsKeyToTheNextButMayStillBeFirst) {
  EngineFixture f(1 << 20);
  const TestSegment slow = MakeSegment(1, 5000, 0);
  const TestSegment fast = MakeSegment(1, 5000, 1);
  auto first = f.engine.Reserve(kAlice, slow.encoded_header);
  EXPECT_EQ(f.engine.Reserve(kBob, fast.encoded_header).code, StatusCode::kBusy);
  f.clock.Advance(f.engine.options().takeover_after);
  auto second = f.engine.Reserve(kBob, fast.encoded_header);
  ASSERT_EQ(second.code, StatusCode::kOk);
  ASSERT_EQ(f.Write(kAlice, first.token, slow, 0, 5000), StatusCode::kOk);
  ASSERT_EQ(f.Write(kBob, second.token, fast, 0, 5000), StatusCode::kOk);
  EXPECT_EQ(f.engine.Commit(kAlice, first.token), StatusCode::kOk);
  EXPECT_EQ(f.engine.Commit(kBob, second.token), StatusCode::kOk);
  EXPECT_TRUE(IsPayloadOf(1, f.engine.Get(KeyOf(1)).pin.payload()));
  EXPECT_EQ(f.engine.segments(), 1u);
  EXPECT_EQ(f.metrics.put_have.value(), 1u);
}

TEST(EngineTest, AWriterThatMakesProgressKeepsItsKey) {
  EngineFixture f(1 << 20);
  const TestSegment segment = MakeSegment(1, 5000);
  const Duration almost = f.engine.options().takeover_after - milliseconds(1);
  auto mine = f.engine.Reserve(kAlice, segment.encoded_header);
  for (uint64_t at = 0; at < 5000; at += 1000) {
    f.clock.Advance(almost);
    EXPECT_EQ(f.engine.Reserve(kBob, segment.encoded_header).code, StatusCode::kBusy) << at;
    ASSERT_EQ(f.Write(kAlice, mine.token, segment, at, 1000), StatusCode::kOk);
  }
  EXPECT_EQ(f.engine.Commit(kAlice, mine.token), StatusCode::kOk);
}

TEST(EngineTest, RefusesWhatItCannotHold) {
  EngineFixture f(1 << 20, {.max_segment_bytes = 100000});
  EXPECT_EQ(f.Put(kAlice, MakeSegment(1, 100000)), StatusCode::kOk);
  EXPECT_EQ(f.Put(kAlice, MakeSegment(2, 100001)), StatusCode::kInvalid);
  TestSegment huge = MakeSegment(3, 1);
  huge.header.payload_length = ~uint64_t{0};
  EXPECT_EQ(f.engine.Reserve(kAlice, Encode(huge.header)).code, StatusCode::kInvalid);
  huge.header.payload_length = 0;
  EXPECT_EQ(f.engine.Reserve(kAlice, Encode(huge.header)).code, StatusCode::kInvalid);
  TestSegment broken = MakeSegment(4, 1);
  broken.encoded_header[20] ^= std::byte{1};
  EXPECT_EQ(f.engine.Reserve(kAlice, broken.encoded_header).code, StatusCode::kCorrupt);
  broken.encoded_header.resize(10);
  EXPECT_EQ(f.engine.Reserve(kAlice, broken.encoded_header).code, StatusCode::kInvalid);
  EXPECT_EQ(f.engine.Reserve(kAlice, {}).code, StatusCode::kInvalid);
}

TEST(EngineTest, OpenPutsHoldAtMostTheirShare) {
  EngineFixture f(1 << 20, {.max_attempts = 3});
  ASSERT_EQ(f.engine.Reserve(kAlice, MakeSegment(1, 400000).encoded_header).code, StatusCode::kOk);
  EXPECT_EQ(f.engine.Reserve(kAlice, MakeSegment(2, 200000).encoded_header).code,
            StatusCode::kBusy);
  EXPECT_EQ(f.engine.Reserve(kAlice, MakeSegment(3, 1).encoded_header).code, StatusCode::kOk);
  EXPECT_EQ(f.engine.Reserve(kAlice, MakeSegment(4, 1).encoded_header).code, StatusCode::kOk);
  EXPECT_EQ(f.engine.Reserve(kAlice, MakeSegment(5, 1).encoded_header).code, StatusCode::kBusy);
  f.engine.Disconnect(kAlice);
  // A single put may be larger than the share.
  EXPECT_EQ(f.Put(kAlice, MakeSegment(6, 900000)), StatusCode::kOk);
}

TEST(EngineTest, EvictsTheLeastRecentlyUsedAndRemembersWhy) {
  EngineFixture f(1 << 20);
  for (uint64_t i = 0; i < 8; ++i)
    ASSERT_EQ(f.Put(kAlice, MakeSegment(i, 120000)), StatusCode::kOk);
  f.engine.Get(KeyOf(0));
  f.engine.Match(kAlice, std::array{KeyOf(1)}, {});
  ASSERT_EQ(f.Put(kAlice, MakeSegment(100, 120000)), StatusCode::kOk);
  ASSERT_EQ(f.Put(kAlice, MakeSegment(101, 120000)), StatusCode::kOk);
  EXPECT_EQ(f.MissOf(0), MissReason::kNone);
  EXPECT_EQ(f.MissOf(1), MissReason::kNone);
  EXPECT_EQ(f.MissOf(2), MissReason::kEvicted);
  EXPECT_EQ(f.MissOf(3), MissReason::kEvicted);
  EXPECT_EQ(f.MissOf(4), MissReason::kNone);
  EXPECT_EQ(f.MissOf(999), MissReason::kNeverStored);
  EXPECT_EQ(f.metrics.evictions.value(), 2u);
  EXPECT_LE(f.arena->used(), f.arena->capacity());
}

TEST(EngineTest, RemembersOnlyTheNewestDepartures) {
  EngineFixture f(64 << 10, {.forgotten_keys = 4});
  for (uint64_t i = 0; i < 10; ++i)
    ASSERT_EQ(f.Put(kAlice, MakeSegment(i, 40000)), StatusCode::kOk);
  EXPECT_EQ(f.MissOf(4), MissReason::kNeverStored);
  for (uint64_t i = 5; i < 9; ++i) EXPECT_EQ(f.MissOf(i), MissReason::kEvicted) << i;
}

TEST(EngineTest, APinKeepsBytesThroughEvictionPressure) {
  EngineFixture f(256 << 10);
  ASSERT_EQ(f.Put(kAlice, MakeSegment(1, 100000)), StatusCode::kOk);
  {
    auto found = f.engine.Get(KeyOf(1));
    for (uint64_t i = 10; i < 50; ++i)
      ASSERT_EQ(f.Put(kAlice, MakeSegment(i, 100000)), StatusCode::kOk);
    EXPECT_TRUE(IsPayloadOf(1, found.pin.payload()));
    EXPECT_EQ(f.Put(kAlice, MakeSegment(60, 200000)), StatusCode::kNoSpace);
  }
  EXPECT_EQ(f.Put(kAlice, MakeSegment(60, 200000)), StatusCode::kOk);
  EXPECT_EQ(f.MissOf(1), MissReason::kEvicted);
}

// C26: with a lease what matched stays; without, its loss has a reason.
TEST(EngineTest, ALeaseKeepsWhatMatchedUntilItEnds) {
  EngineFixture f(1 << 20);
  auto fill = [&](uint64_t from) {
    for (uint64_t i = from; i < from + 20; ++i) f.Put(kAlice, MakeSegment(i, 100000));
  };
  for (auto end : {"deadline", "release", "disconnect"}) {
    SCOPED_TRACE(end);
    ASSERT_EQ(f.Put(kAlice, MakeSegment(1, 100000)), StatusCode::kOk);
    auto matched = f.engine.Match(kBob, std::array{KeyOf(1), KeyOf(5000)}, seconds(10));
    ASSERT_NE(matched.lease_id, 0u);
    EXPECT_EQ(matched.keys[0].miss, MissReason::kNone);
    EXPECT_EQ(matched.keys[0].payload_length, 100000u);
    EXPECT_EQ(matched.keys[1].miss, MissReason::kNeverStored);
    fill(100);
    EXPECT_EQ(f.MissOf(1), MissReason::kNone);
    if (end == std::string("release")) {
      f.engine.Release(matched.lease_id + 1);
      EXPECT_EQ(f.engine.leases(), 1u);
      f.engine.Release(matched.lease_id);
    } else if (end == std::string("disconnect")) {
      f.engine.Disconnect(kBob);
    } else {
      f.clock.Advance(seconds(10));
      f.engine.ExpireDue();
    }
    EXPECT_EQ(f.engine.leases(), 0u);
    EXPECT_EQ(f.engine.pinned(), 0u);
    fill(200);
    EXPECT_EQ(f.MissOf(1), MissReason::kEvicted);
  }
}

TEST(EngineTest, LeasesAreBounded) {
  EngineFixture f(1 << 20, {.max_leases = 2, .max_leased_keys = 3});
  for (uint64_t i = 0; i < 8; ++i)
    ASSERT_EQ(f.Put(kAlice, MakeSegment(i, 100000)), StatusCode::kOk);
  auto lease = [&](std::vector<uint64_t> numbers) {
    std::vector<BlockKey> keys;
    for (uint64_t n : numbers) keys.push_back(KeyOf(n));
    return f.engine.Match(kAlice, keys, seconds(1)).lease_id;
  };
  EXPECT_EQ(lease({0, 1, 2, 3, 4, 5}), 0u);  // more than half the memory, and too many keys
  EXPECT_EQ(lease({999}), 0u);               // nothing to hold
  EXPECT_NE(lease({0, 1}), 0u);
  EXPECT_EQ(lease({2, 3}), 0u);  // too many keys
  EXPECT_NE(lease({0}), 0u);
  EXPECT_EQ(lease({0}), 0u);  // too many leases
  f.engine.Disconnect(kAlice);
  EXPECT_EQ(f.engine.pinned(), 0u);
}

TEST(EngineTest, ACorruptReportIsCheckedBeforeItIsBelieved) {
  EngineFixture f(1 << 20);
  const TestSegment segment = MakeSegment(1, 5000);
  ASSERT_EQ(f.Put(kAlice, segment), StatusCode::kOk);
  EXPECT_FALSE(f.engine.ReportCorrupt(KeyOf(1), segment.header.generation));
  EXPECT_EQ(f.MissOf(1), MissReason::kNone);
  {
    auto found = f.engine.Get(KeyOf(1));
    const_cast<std::byte&>(found.pin.payload()[17]) ^= std::byte{4};
    EXPECT_FALSE(f.engine.ReportCorrupt(KeyOf(1), GenerationId{99, 99}));
    EXPECT_TRUE(f.engine.ReportCorrupt(KeyOf(1), segment.header.generation));
    EXPECT_EQ(f.MissOf(1), MissReason::kCorrupt);
    EXPECT_GT(f.arena->used(), 0u);  // somebody still reads it
  }
  EXPECT_EQ(f.arena->used(), 0u);
  EXPECT_EQ(f.Put(kAlice, segment), StatusCode::kOk);  // and it can be put again
  EXPECT_EQ(f.MissOf(1), MissReason::kNone);
}

TEST(EngineTest, AKeyThatLeftTwiceIsRememberedByItsLastDeparture) {
  ForgottenKeys forgotten(3);
  forgotten.Add(KeyOf(1), MissReason::kEvicted);
  forgotten.Add(KeyOf(2), MissReason::kEvicted);
  forgotten.Add(KeyOf(1), MissReason::kCorrupt);
  forgotten.Add(KeyOf(3), MissReason::kEvicted);  // the first departure of 1 is forgotten
  EXPECT_EQ(forgotten.Reason(KeyOf(1)), MissReason::kCorrupt);
  forgotten.Add(KeyOf(4), MissReason::kEvicted);
  EXPECT_EQ(forgotten.Reason(KeyOf(2)), MissReason::kNeverStored);
  forgotten.Add(KeyOf(5), MissReason::kEvicted);
  EXPECT_EQ(forgotten.Reason(KeyOf(1)), MissReason::kNeverStored);
  EXPECT_EQ(forgotten.size(), 3u);
}

// A window grows over the neighbour that is worth less.
TEST(EngineTest, RoomForALargeSegmentSparesTheHotNeighbour) {
  for (const bool left_is_hot : {true, false}) {
    EngineFixture f(3 * 128 << 10);
    for (uint64_t i = 0; i < 3; ++i) {
      ASSERT_EQ(f.Put(kAlice, MakeSegment(i, 128'000)), StatusCode::kOk);
    }
    for (uint64_t i : left_is_hot ? std::array{1, 2, 0} : std::array{1, 0, 2}) f.MissOf(i);
    ASSERT_EQ(f.Put(kAlice, MakeSegment(9, 250'000)), StatusCode::kOk);
    EXPECT_EQ(f.MissOf(1), MissReason::kEvicted);
    EXPECT_EQ(f.MissOf(left_is_hot ? 0 : 2), MissReason::kNone);
    EXPECT_EQ(f.MissOf(left_is_hot ? 2 : 0), MissReason::kEvicted);
  }
}

// Sizes change: room for one large segment costs about its own length, not the whole store.
TEST(EngineTest, AChangeOfSizesEvictsAboutWhatItNeeds) {
  EngineFixture f(64 << 20);
  SeededRandom random(3);
  for (uint64_t i = 0; i < 1000; ++i)
    ASSERT_EQ(f.Put(kAlice, MakeSegment(i, 64000)), StatusCode::kOk);
  // Use them in an order that has nothing to do with where they lie.
  for (int i = 0; i < 5000; ++i) f.engine.Get(KeyOf(random.Next() % 1000));
  const uint64_t before = f.metrics.evicted_bytes.value();
  ASSERT_EQ(f.Put(kAlice, MakeSegment(5000, 8 << 20)), StatusCode::kOk);
  EXPECT_LE(f.metrics.evicted_bytes.value() - before, (8u << 20) + (128u << 10));
}

}  // namespace
}  // namespace ember::kv::testing
