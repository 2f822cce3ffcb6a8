// What leaves the engine because its time is over, or because somebody said so: TTL and purges.
#include "tests/unit/kvstore/engine_fixture.h"

namespace ember::kv::testing {
namespace {

constexpr OwnerId kWriter = 1;

class Journal final : public EngineObserver {
 public:
  void Stored(const BlockKey& key, Tier tier, const GenerationId& generation) override {
    EXPECT_EQ(tier, Tier::kMemory);
    EXPECT_TRUE(stored.emplace(key, generation).second) << "stored twice";
  }
  void Removed(const BlockKey& key, Tier, const GenerationId& generation,
               MissReason reason) override {
    auto it = stored.find(key);
    ASSERT_TRUE(it != stored.end()) << "removed what was never stored";
    EXPECT_EQ(it->second, generation);
    stored.erase(it);
    reasons.push_back(reason);
  }
  void Purged(const PurgeScope& scope, uint64_t epoch) override {
    purges.push_back({scope, epoch});
  }

  std::map<BlockKey, GenerationId> stored;
  std::vector<MissReason> reasons;
  std::vector<std::pair<PurgeScope, uint64_t>> purges;
};

TEST(EnginePurgeTest, TakesItsScopeAndNothingElse) {
  EngineFixture f(1 << 20);
  auto fill = [&] {
    for (uint64_t i = 0; i < 8; ++i) {
      const TestSegment segment = SegmentOf(i, /*ns=*/i % 2, i < 4 ? "ann" : "bob");
      ASSERT_EQ(f.Put(kWriter, segment), StatusCode::kOk);
    }
  };
  auto miss = [&](uint64_t i) { return f.engine.Get(KeyOf(i, i % 2)).miss; };
  fill();
  EXPECT_EQ(f.engine.Purge(PurgeScope::OfNamespace(NamespaceOf(1)), 1), 4u);
  for (uint64_t i = 0; i < 8; ++i) {
    EXPECT_EQ(miss(i), i % 2 == 1 ? MissReason::kPurged : MissReason::kNone) << i;
  }
  fill();  // what is put after a purge is kept
  EXPECT_EQ(f.engine.Purge(PurgeScope::OfTenant("ann"), 2), 4u);
  for (uint64_t i = 0; i < 8; ++i) {
    EXPECT_EQ(miss(i), i < 4 ? MissReason::kPurged : MissReason::kNone) << i;
  }
  fill();
  EXPECT_EQ(f.engine.Purge(PurgeScope::OfTenant(""), 3), 0u);
  EXPECT_EQ(f.engine.Purge(PurgeScope::Everything(), 4), 8u);
  EXPECT_EQ(f.engine.segments(), 0u);
  EXPECT_EQ(f.arena->used(), 0u);
  EXPECT_EQ(f.metrics.purged_segments.value(), 16u);
}

TEST(EnginePurgeTest, WhatIsReadLeavesTheIndexAtOnceAndItsMemoryWithTheLastReader) {
  EngineFixture f(1 << 20);
  ASSERT_EQ(f.Put(kWriter, MakeSegment(1, 5000)), StatusCode::kOk);
  {
    auto found = f.engine.Get(KeyOf(1));
    const auto lease = f.engine.Match(kWriter, std::array{KeyOf(1)}, seconds(5)).lease_id;
    EXPECT_EQ(f.engine.Purge(PurgeScope::Everything(), 1), 1u);
    EXPECT_EQ(f.MissOf(1), MissReason::kPurged);
    EXPECT_EQ(f.engine.segments(), 0u);
    EXPECT_TRUE(IsPayloadOf(1, found.pin.payload()));
    EXPECT_GT(f.arena->used(), 0u);
    // It may be stored again while the old bytes are still being read.
    EXPECT_EQ(f.Put(kWriter, MakeSegment(1, 6000)), StatusCode::kOk);
    EXPECT_TRUE(IsPayloadOf(1, found.pin.payload()));
    f.engine.Release(lease);
  }
  EXPECT_EQ(f.arena->used(), f.arena->RoundedLength(6000 + 300));
}

TEST(EnginePurgeTest, APutReservedBeforeIsNeverPublishedOneReservedAfterIs) {
  EngineFixture f(1 << 20);
  const TestSegment segment = MakeSegment(1, 5000);
  const TestSegment other = SegmentOf(2, 77, "");
  auto before = f.engine.Reserve(kWriter, segment.encoded_header);
  auto untouched = f.engine.Reserve(kWriter, other.encoded_header);
  ASSERT_EQ(f.Write(kWriter, before.token, segment, 0, 5000), StatusCode::kOk);
  EXPECT_EQ(f.engine.Purge(PurgeScope::OfNamespace(segment.header.key.ns), 1), 0u);
  auto after = f.engine.Reserve(kWriter, segment.encoded_header);  // the key is free at once
  ASSERT_EQ(after.code, StatusCode::kOk);
  EXPECT_EQ(f.engine.Commit(kWriter, before.token), StatusCode::kNotFound);
  EXPECT_EQ(f.MissOf(1), MissReason::kNeverStored);
  ASSERT_EQ(f.Write(kWriter, after.token, segment, 0, 5000), StatusCode::kOk);
  EXPECT_EQ(f.engine.Commit(kWriter, after.token), StatusCode::kOk);
  EXPECT_EQ(f.MissOf(1), MissReason::kNone);
  ASSERT_EQ(f.Write(kWriter, untouched.token, other, 0, 5000), StatusCode::kOk);
  EXPECT_EQ(f.engine.Commit(kWriter, untouched.token), StatusCode::kOk);
  EXPECT_EQ(f.metrics.put_purged.value(), 1u);
}

TEST(EnginePurgeTest, MemoryOfAPurgedPutStaysWhileBytesArriveInIt) {
  EngineFixture f(1 << 20);
  const TestSegment segment = MakeSegment(1, 5000);
  auto before = f.engine.Reserve(kWriter, segment.encoded_header);
  {
    Result<WriteGrant> grant = f.engine.BeginWrite(kWriter, before.token, 0, 5000);
    ASSERT_TRUE(grant.ok());
    f.engine.Purge(PurgeScope::Everything(), 1);
    EXPECT_TRUE(grant->expired());
    EXPECT_GT(f.arena->used(), 0u);
  }
  EXPECT_EQ(f.arena->used(), 0u);
  EXPECT_EQ(f.engine.reserved_bytes(), 0u);
  EXPECT_EQ(f.engine.Commit(kWriter, before.token), StatusCode::kNotFound);
}

TEST(EnginePurgeTest, ARepeatedPurgeSparesWhatIsNewer) {
  EngineFixture f(1 << 20);
  const auto scope = PurgeScope::OfNamespace(KeyOf(1).ns);
  ASSERT_EQ(f.Put(kWriter, MakeSegment(1, 5000)), StatusCode::kOk);
  f.engine.Purge(scope, 5);
  ASSERT_EQ(f.Put(kWriter, MakeSegment(1, 5000)), StatusCode::kOk);
  EXPECT_EQ(f.engine.Purge(scope, 5), 0u);
  EXPECT_EQ(f.engine.Purge(scope, 4), 0u);
  EXPECT_EQ(f.MissOf(1), MissReason::kNone);
  EXPECT_EQ(f.engine.Purge(scope, 6), 1u);
}

// What a tier that reads old records again asks.
TEST(EnginePurgeTest, KnowsWhichOldRecordsWerePurged) {
  EngineFixture f(1 << 20);
  const NamespaceId a = NamespaceOf(1), b = NamespaceOf(2);
  const uint64_t ann = TenantHash("ann"), bob = TenantHash("bob");
  EXPECT_FALSE(f.engine.IsPurged(a, ann, 0));
  f.engine.Purge(PurgeScope::OfNamespace(a), 3);
  f.engine.Purge(PurgeScope::OfTenant("bob"), 7);
  EXPECT_TRUE(f.engine.IsPurged(a, ann, 2));
  EXPECT_FALSE(f.engine.IsPurged(a, ann, 3));
  EXPECT_FALSE(f.engine.IsPurged(b, ann, 0));
  EXPECT_TRUE(f.engine.IsPurged(b, bob, 6));
  EXPECT_FALSE(f.engine.IsPurged(b, bob, 7));
  EXPECT_EQ(f.engine.tombstones().epoch(), 7u);
}

TEST(EnginePurgeTest, TombstonesAreBoundedAndNeverForgetAPurge) {
  Tombstones tombstones(4);
  for (uint64_t i = 1; i <= 100; ++i) {
    tombstones.Add(PurgeScope::OfNamespace(NamespaceOf(i % 10)), i);
    EXPECT_LE(tombstones.all().size(), 4u);
    for (uint64_t past = 1; past <= i; ++past) {
      EXPECT_TRUE(tombstones.Cover(NamespaceOf(past % 10), 0, past - 1)) << past << " at " << i;
    }
    EXPECT_FALSE(tombstones.Cover(NamespaceOf(i % 10), 0, i));
  }
  // Still told apart: namespaces purged lately, and others.
  EXPECT_TRUE(tombstones.Cover(NamespaceOf(9), 0, 98));
  EXPECT_FALSE(tombstones.Cover(NamespaceOf(55), 0, 98));
  tombstones.Add(PurgeScope::Everything(), 101);
  EXPECT_EQ(tombstones.all().size(), 1u);
  tombstones.Add(PurgeScope::OfNamespace(NamespaceOf(1)), 50);  // late: it is covered already
  EXPECT_EQ(tombstones.all().size(), 1u);
  EXPECT_EQ(tombstones.epoch(), 101u);
}

TEST(EngineTtlTest, ASegmentIsAMissFromTheMomentItsTimeIsOver) {
  EngineFixture f(1 << 20, {.ttl = seconds(60)});
  ASSERT_EQ(f.Put(kWriter, MakeSegment(1, 5000)), StatusCode::kOk);
  f.clock.Advance(seconds(60) - milliseconds(1));
  EXPECT_EQ(f.MissOf(1), MissReason::kNone);  // a use doesn't lengthen its life
  f.clock.Advance(milliseconds(1));
  auto matched = f.engine.Match(kWriter, std::array{KeyOf(1)}, {});
  EXPECT_EQ(matched.keys[0].miss, MissReason::kExpired);
  EXPECT_EQ(f.MissOf(1), MissReason::kExpired);
  EXPECT_EQ(f.arena->used(), 0u);
  EXPECT_EQ(f.metrics.expired_segments.value(), 1u);
  EXPECT_EQ(f.Put(kWriter, MakeSegment(1, 5000)), StatusCode::kOk);
  EXPECT_EQ(f.MissOf(1), MissReason::kNone);
}

TEST(EngineTtlTest, TheSweepFreesWhatNobodyAsksForInBoundedSteps) {
  EngineFixture f(1 << 20, {.ttl = seconds(60), .sweep_extents = 4});
  for (uint64_t i = 0; i < 10; ++i)
    ASSERT_EQ(f.Put(kWriter, MakeSegment(i, 5000)), StatusCode::kOk);
  f.clock.Advance(seconds(30));
  for (uint64_t i = 10; i < 20; ++i)
    ASSERT_EQ(f.Put(kWriter, MakeSegment(i, 5000)), StatusCode::kOk);
  f.clock.Advance(seconds(30));
  f.engine.ExpireDue();
  EXPECT_GE(f.engine.segments(), 16u);
  for (int i = 0; i < 5; ++i) f.engine.ExpireDue();
  EXPECT_EQ(f.engine.segments(), 10u);
  f.clock.Advance(seconds(30));
  for (int i = 0; i < 5; ++i) f.engine.ExpireDue();
  EXPECT_EQ(f.engine.segments(), 0u);
  EXPECT_EQ(f.arena->used(), 0u);
}

TEST(EngineTtlTest, ALeaseKeepsTheBytesButNotTheAnswer) {
  EngineFixture f(1 << 20, {.ttl = seconds(10)});
  ASSERT_EQ(f.Put(kWriter, MakeSegment(1, 5000)), StatusCode::kOk);
  {
    auto found = f.engine.Get(KeyOf(1));
    const auto lease = f.engine.Match(kWriter, std::array{KeyOf(1)}, seconds(50)).lease_id;
    ASSERT_NE(lease, 0u);
    f.clock.Advance(seconds(10));
    f.engine.ExpireDue();
    EXPECT_EQ(f.MissOf(1), MissReason::kExpired);
    EXPECT_TRUE(IsPayloadOf(1, found.pin.payload()));
    f.engine.Release(lease);
    EXPECT_GT(f.arena->used(), 0u);
  }
  EXPECT_EQ(f.arena->used(), 0u);
}

TEST(EngineTtlTest, ANamespaceMayHaveItsOwn) {
  EngineFixture f(1 << 20, {.ttl = seconds(60), .max_ttl_overrides = 2});
  ASSERT_TRUE(f.engine.SetTtl(NamespaceOf(1), seconds(5)).ok());
  ASSERT_TRUE(f.engine.SetTtl(NamespaceOf(2), Duration::zero()).ok());
  EXPECT_EQ(f.engine.SetTtl(NamespaceOf(3), seconds(1)).code(), StatusCode::kBusy);
  EXPECT_EQ(f.engine.SetTtl(NamespaceOf(1), seconds(-1)).code(), StatusCode::kInvalid);
  for (uint64_t ns : {1, 2, 3}) ASSERT_EQ(f.Put(kWriter, SegmentOf(ns, ns, "")), StatusCode::kOk);
  auto miss = [&](uint64_t ns) { return f.engine.Get(KeyOf(ns, ns)).miss; };
  f.clock.Advance(seconds(5));
  EXPECT_EQ(miss(1), MissReason::kExpired);
  EXPECT_EQ(miss(3), MissReason::kNone);
  f.clock.Advance(seconds(55));
  EXPECT_EQ(miss(3), MissReason::kExpired);
  EXPECT_EQ(miss(2), MissReason::kNone);
  // Also for what is stored already, counted from its creation.
  ASSERT_TRUE(f.engine.SetTtl(NamespaceOf(2), seconds(61)).ok());
  EXPECT_EQ(miss(2), MissReason::kNone);
  f.clock.Advance(seconds(1));
  EXPECT_EQ(miss(2), MissReason::kExpired);
  ASSERT_TRUE(f.engine.SetTtl(NamespaceOf(2), std::nullopt).ok());
  EXPECT_TRUE(f.engine.SetTtl(NamespaceOf(3), seconds(1)).ok());
}

// Records say when they were made, by the wall clock; a tier asks with that after a restart.
TEST(EngineTtlTest, AnOldRecordHasTheRestOfItsTime) {
  EngineFixture f(1 << 20, {.ttl = seconds(60)});
  const NamespaceId ns = NamespaceOf(1);
  const int64_t now = f.wall_clock.NowMs();
  EXPECT_EQ(f.engine.ExpiryOf(ns, now - 59'000), f.clock.Now() + seconds(1));
  EXPECT_LE(f.engine.ExpiryOf(ns, now - 60'000), f.clock.Now());
  EXPECT_EQ(f.engine.ExpiryOf(ns, now + 5'000), f.clock.Now() + seconds(60));
  EXPECT_LE(f.engine.ExpiryOf(ns, INT64_MIN), f.clock.Now());
  EXPECT_EQ(f.engine.ExpiryOf(ns, INT64_MAX), f.clock.Now() + seconds(60));
  EngineFixture forever(1 << 20);
  EXPECT_EQ(forever.engine.ExpiryOf(ns, INT64_MIN), TimePoint::max());
}

TEST(EngineObserverTest, HearsAllThatComesAndGoes) {
  EngineFixture f(256 << 10, {.ttl = seconds(5)});
  Journal journal;
  f.engine.SetObserver(&journal);
  SeededRandom random(5);
  uint64_t epoch = 0;
  for (int step = 0; step < 2000; ++step) {
    const uint64_t number = random.Next() % 40;
    (void)f.Put(kWriter, SegmentOf(number, number % 2, number % 3 == 0 ? "ann" : "bob",
                                   1 + random.Next() % 30000));
    if (step % 50 == 0) f.clock.Advance(seconds(random.Next() % 8));
    if (step % 10 == 0) f.engine.ExpireDue();
    if (step % 100 == 99) f.engine.Purge(PurgeScope::OfTenant("ann"), ++epoch);
    std::map<BlockKey, GenerationId> stored;
    uint64_t cursor = 0;
    do {
      cursor = f.engine.VisitStored(cursor, 3, [&](const BlockKey& key, const GenerationId& g) {
        EXPECT_TRUE(stored.emplace(key, g).second);
      });
    } while (cursor != 0);
    ASSERT_EQ(stored, journal.stored) << step;
    ASSERT_EQ(stored.size(), f.engine.segments());
  }
  for (MissReason reason : {MissReason::kEvicted, MissReason::kExpired, MissReason::kPurged}) {
    EXPECT_GT(std::ranges::count(journal.reasons, reason), 0) << MissReasonName(reason);
  }
  EXPECT_EQ(journal.purges.size(), 20u);
  EXPECT_EQ(journal.purges.back(), std::pair(PurgeScope::OfTenant("ann"), epoch));
}

}  // namespace
}  // namespace ember::kv::testing
