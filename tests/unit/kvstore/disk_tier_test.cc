// The disk tier in ordinary life: what was written is read back, by every policy, and is there
// again after a restart of any kind.
#include "tests/unit/kvstore/disk_fixture.h"
#include "tests/unit/support/eventually.h"

namespace ember::kv::testing {
namespace {

class DiskTierTest : public DiskTest {
 protected:
  // Until the background has written it.
  bool SoonOnDisk(uint64_t number) {
    return Eventually([&] { return OnDisk(number); });
  }
};
EMBER_DISK_BACK_ENDS(DiskTierTest);

// Around every boundary of blocks, with headers of their usual size, and up to most of a region.
constexpr size_t kLengths[] = {1,    511,   512,   3700,    3800,   4095,   4096,
                               4097, 65536, 65537, 1 << 20, 999999, 1900000};

TEST_P(DiskTierTest, SegmentsOfAllSizesAreReadBackFromDiskAfterARestart) {
  ASSERT_TRUE(Start().ok());
  uint64_t number = 0;
  for (size_t length : kLengths) EXPECT_TRUE(PutDurably(++number, length)) << length;
  Stop();
  ASSERT_TRUE(Start().ok());
  number = 0;
  for (size_t length : kLengths) {
    EXPECT_FALSE(InMemory(number + 1));
    EXPECT_TRUE(Right(++number, length)) << length;
    EXPECT_TRUE(InMemory(number));
  }
}

// C12: blocks on disk are of use after a restart; what was acknowledged at `disk` is all there.
TEST_P(DiskTierTest, C12_AfterAKillAllThatWasDurableIsThere) {
  options_.capacity_bytes = 64 << 20;
  ASSERT_TRUE(Start().ok());
  for (int round = 0; round < 3; ++round) {
    for (uint64_t n = 1; n <= 12; ++n) ASSERT_TRUE(PutDurably(100 * round + n, 300000 + n));
    Kill();
    if (round == 1) LoseCatalog();
    ASSERT_TRUE(Start().ok());
    for (int earlier = 0; earlier <= round; ++earlier) {
      for (uint64_t n = 1; n <= 12; ++n) EXPECT_TRUE(Right(100 * earlier + n, 300000 + n));
    }
  }
}

TEST_P(DiskTierTest, ALostCatalogIsBuiltAgainFromFootersAndRecords) {
  ASSERT_TRUE(Start().ok());
  for (uint64_t n = 1; n <= 12; ++n) ASSERT_TRUE(PutDurably(n, 400000));  // five to a region
  Stop();
  const CatalogContents before = catalog_.contents[0];
  LoseCatalog();
  ASSERT_TRUE(Start().ok());
  for (uint64_t n = 1; n <= 12; ++n) EXPECT_TRUE(Right(n, 400000));
  Stop();
  size_t rows_before = 0, rows_after = 0;
  for (const auto& [id, region] : before.regions) rows_before += region.records.size();
  for (const auto& [id, region] : catalog_.contents[0].regions) {
    rows_after += region.records.size();
  }
  EXPECT_EQ(rows_before, rows_after);
}

TEST_P(DiskTierTest, ACatalogThatRefusesIsMadeUpForLater) {
  ASSERT_TRUE(Start().ok());
  Do([&] { catalog_.failing = true; });
  ASSERT_TRUE(PutDurably(1, 1000));
  Do([&] { catalog_.failing = false; });
  EXPECT_TRUE(Eventually([&] {
    bool there = false;
    Do([&] {
      for (const auto& [id, region] : catalog_.contents[0].regions) {
        there |= !region.records.empty();
      }
    });
    return there;
  }));
  Stop();
  ASSERT_TRUE(Start().ok());
  EXPECT_TRUE(Right(1, 1000));
}

TEST_P(DiskTierTest, CallersOfOneKeyShareOneRead) {
  ASSERT_TRUE(Start().ok());
  ASSERT_TRUE(PutDurably(1, 1 << 20));
  Stop();
  ASSERT_TRUE(Start().ok());
  const uint64_t before = metrics_.hits.value();
  int right = 0;
  (void)OnLoop([&]() -> io::Task<Status> {
    io::Gate gate;
    const auto one = [&]() -> io::Task<void> {
      ShardEngine::Found found = co_await tier_->Load(KeyOf(1));
      right += found.pin.held() && IsPayloadOf(1, found.pin.payload());
    };
    for (int i = 0; i < 10; ++i) gate.Spawn(one());
    co_await gate.Close();
    co_return OkStatus();
  });
  EXPECT_EQ(right, 10);
  EXPECT_EQ(metrics_.hits.value() - before, 1u);
}

TEST_P(DiskTierTest, WhatIsOnDiskIsMatchedReservedAsHaveAndLeased) {
  ASSERT_TRUE(Start().ok());
  const TestSegment segment = MakeSegment(1, 5000);
  ASSERT_EQ(Put(segment), StatusCode::kOk);
  ASSERT_EQ(Persist({1}), std::vector{StatusCode::kOk});
  Stop();
  ASSERT_TRUE(Start().ok());
  Do([&] {
    EXPECT_TRUE(engine_->Reserve(1, segment.encoded_header).have);
    const std::vector<BlockKey> keys = {KeyOf(1), KeyOf(2)};
    const ShardEngine::Matched matched = engine_->Match(1, keys, seconds(10));
    EXPECT_EQ(matched.keys[0].miss, MissReason::kNone);
    EXPECT_EQ(matched.keys[0].tier, Tier::kDisk);
    EXPECT_EQ(matched.keys[0].payload_length, 5000u);
    EXPECT_EQ(matched.keys[0].generation, segment.header.generation);
    EXPECT_EQ(matched.keys[1].miss, MissReason::kNeverStored);
    ASSERT_NE(matched.lease_id, 0u);
    const RegionId region = engine_->disk().Find(KeyOf(1))->region;
    EXPECT_EQ(engine_->disk().FindRegion(region)->pins, 1u);
    engine_->Release(matched.lease_id);
    EXPECT_EQ(engine_->disk().FindRegion(region)->pins, 0u);
  });
}

// ---- write policies

TEST_P(DiskTierTest, ThroughWritesWhatIsPut) {
  ASSERT_TRUE(Start().ok());
  Put(1, 10000);
  EXPECT_TRUE(SoonOnDisk(1));
}

TEST_P(DiskTierTest, SecondUseWritesWhatIsUsedAgain) {
  options_.policy = WritePolicy::kSecondUse;
  ASSERT_TRUE(Start().ok());
  Put(1, 10000);
  Put(2, 10000);
  Get(2);
  EXPECT_TRUE(SoonOnDisk(2));
  EXPECT_FALSE(OnDisk(1));
}

// C7: what is listed can be read, though three times as much was put as memory holds.
TEST_P(DiskTierTest, C7_DemotionListsOnlyWhatItHas) {
  options_.policy = WritePolicy::kDemotion;
  options_.capacity_bytes = 64 << 20;
  memory_bytes_ = 4 << 20;
  ASSERT_TRUE(Start().ok());
  constexpr uint64_t kCount = 60;
  for (uint64_t n = 1; n <= kCount; ++n) {
    ASSERT_EQ(Put(n, 200000), StatusCode::kOk);
    if (n % 4 == 0) Persist({n});  // gives the background a moment
  }
  // Counted before anything is read, for a segment read from disk pushes others out of memory.
  std::vector<BlockKey> keys;
  for (uint64_t n = 1; n <= kCount; ++n) keys.push_back(KeyOf(n));
  int listed = 0;
  Do([&] {
    for (const auto& key : engine_->Match(1, keys, {}).keys)
      listed += key.miss == MissReason::kNone;
  });
  EXPECT_GT(listed, 20);  // more than memory alone could hold
  for (uint64_t n = 1; n <= kCount; ++n) {
    bool present = false;
    Do([&] {
      present = engine_->Match(1, std::span(keys).subspan(n - 1, 1), {}).keys[0].miss ==
                MissReason::kNone;
    });
    if (present) {
      EXPECT_TRUE(Right(n, 200000));
    } else {
      EXPECT_TRUE(Get(n).empty());
      EXPECT_EQ(miss_, MissReason::kEvicted);
    }
  }
}

TEST_P(DiskTierTest, AnOrderlyStopWritesEverythingThatIsLeft) {
  options_.policy = WritePolicy::kSecondUse;
  ASSERT_TRUE(Start().ok());
  for (uint64_t n = 1; n <= 20; ++n) ASSERT_EQ(Put(n, 100000), StatusCode::kOk);
  EXPECT_FALSE(OnDisk(1));
  Stop();
  ASSERT_TRUE(Start().ok());
  for (uint64_t n = 1; n <= 20; ++n) EXPECT_TRUE(Right(n, 100000));
}

TEST_P(DiskTierTest, ABoundedQueueLeavesOutWhatIsTooMuch) {
  options_.max_queue_bytes = 300000;
  ASSERT_TRUE(Start().ok());
  Do([&] {
    // No write ends before this function does: the loop has not come round.
    for (uint64_t n = 1; n <= 40; ++n) EXPECT_EQ(PutHere(MakeSegment(n, 100000)), StatusCode::kOk);
  });
  EXPECT_GT(metrics_.skipped_queue_full.value(), 0u);
}

// ---- durability

TEST_P(DiskTierTest, OneSyncServesManyWhoWait) {
  ASSERT_TRUE(Start().ok());
  ASSERT_TRUE(PutDurably(1000, 100));  // opens the region
  std::vector<uint64_t> numbers;
  for (uint64_t n = 1; n <= 32; ++n) {
    numbers.push_back(n);
    ASSERT_EQ(Put(n, 10000), StatusCode::kOk);
  }
  const uint64_t before =
      metrics_.sync_seconds.CumulativeCount(metrics_.sync_seconds.bounds().size());
  const std::vector<StatusCode> codes = Persist(numbers);
  EXPECT_EQ(codes, std::vector<StatusCode>(32, StatusCode::kOk));
  const uint64_t syncs =
      metrics_.sync_seconds.CumulativeCount(metrics_.sync_seconds.bounds().size()) - before;
  EXPECT_LE(syncs, 16u);
}

TEST_P(DiskTierTest, PersistSaysWhatItCannotDo) {
  ASSERT_TRUE(Start().ok());
  ASSERT_EQ(Put(1, 1000), StatusCode::kOk);
  ASSERT_EQ(Put(2, 3 << 20), StatusCode::kOk);  // larger than a region
  const std::vector<StatusCode> want = {StatusCode::kOk, StatusCode::kNoSpace,
                                        StatusCode::kNotFound, StatusCode::kOk};
  EXPECT_EQ(Persist({1, 2, 3, 1}), want);
}

// C6: a batch of 100 with one there already, one too large and one with wrong bytes.
TEST_P(DiskTierTest, C6_ABatchIsStoredPieceByPiece) {
  memory_bytes_ = 32 << 20;
  options_.capacity_bytes = 64 << 20;
  engine_options_.max_segment_bytes = 1 << 20;
  ASSERT_TRUE(Start().ok());
  ASSERT_TRUE(PutDurably(1, 20000));
  std::vector<uint64_t> stored;
  std::map<StatusCode, int> verdicts;
  for (uint64_t n = 1; n <= 100; ++n) {
    TestSegment segment = MakeSegment(n, n == 2 ? (1 << 20) + 1 : 20000);
    if (n == 3) segment.payload[7] ^= std::byte{1};
    const StatusCode code = Put(segment);
    ++verdicts[code];
    if (code == StatusCode::kOk) stored.push_back(n);
  }
  EXPECT_EQ(verdicts[StatusCode::kInvalid], 1);
  EXPECT_EQ(verdicts[StatusCode::kCorrupt], 1);
  const std::vector<StatusCode> codes = Persist(stored);
  EXPECT_EQ(codes, std::vector<StatusCode>(98, StatusCode::kOk));
  Kill();
  ASSERT_TRUE(Start().ok());
  for (uint64_t n = 1; n <= 100; ++n) {
    EXPECT_EQ(OnDisk(n), n != 2 && n != 3) << n;
    if (OnDisk(n)) EXPECT_TRUE(Right(n, 20000));
  }
}

// ---- room

TEST_P(DiskTierTest, TheCapHoldsAndTheOldestRegionsGoFirst) {
  ASSERT_TRUE(Start().ok());  // 8 regions of 2 MiB
  constexpr uint64_t kCount = 60;
  for (uint64_t n = 1; n <= kCount; ++n) {
    ASSERT_TRUE(PutDurably(n, 400000)) << n;
    uint64_t total = 0;
    for (const auto& entry : std::filesystem::directory_iterator(options_.directory + "/shard-0")) {
      if (RegionOfName(entry.path().filename().string())) total += entry.file_size();
    }
    ASSERT_LE(total, options_.capacity_bytes);
  }
  EXPECT_GT(metrics_.evicted_regions.value(), 0u);
  EXPECT_FALSE(OnDisk(1));
  EXPECT_TRUE(OnDisk(kCount));
  EXPECT_GE(DiskSegments(), 7u * 4);
  Kill();
  ASSERT_TRUE(Start().ok());
  int there = 0;
  for (uint64_t n = 1; n <= kCount; ++n) {
    if (!OnDisk(n)) continue;
    ++there;
    EXPECT_TRUE(Right(n, 400000));
  }
  EXPECT_GE(there, 7 * 4);
}

TEST_P(DiskTierTest, ALeasedRegionOutlivesEviction) {
  ASSERT_TRUE(Start().ok());
  ASSERT_TRUE(PutDurably(1, 400000));
  Stop();
  ASSERT_TRUE(Start().ok());
  uint64_t lease = 0;
  Do([&] {
    const std::vector<BlockKey> keys = {KeyOf(1)};
    lease = engine_->Match(1, keys, seconds(50)).lease_id;
  });
  ASSERT_NE(lease, 0u);
  for (uint64_t n = 2; n <= 60; ++n) ASSERT_TRUE(PutDurably(n, 400000));
  EXPECT_TRUE(OnDisk(1));
  EXPECT_FALSE(OnDisk(10));
  Do([&] { engine_->Release(lease); });
  for (uint64_t n = 61; n <= 120; ++n) ASSERT_TRUE(PutDurably(n, 400000));
  EXPECT_FALSE(OnDisk(1));
}

TEST_P(DiskTierTest, AUsedRegionOutlivesUnusedOnes) {
  ASSERT_TRUE(Start().ok());
  for (uint64_t n = 1; n <= 24; ++n) ASSERT_TRUE(PutDurably(n, 400000));
  Stop();
  ASSERT_TRUE(Start().ok());
  EXPECT_TRUE(Right(1, 400000));  // the oldest region
  for (uint64_t n = 25; n <= 46; ++n) ASSERT_TRUE(PutDurably(n, 400000));
  EXPECT_TRUE(OnDisk(1));
  EXPECT_FALSE(OnDisk(6));
}

TEST_P(DiskTierTest, ASmallerDiskSettingIsKeptToAtTheNextStart) {
  ASSERT_TRUE(Start().ok());
  for (uint64_t n = 1; n <= 28; ++n) ASSERT_TRUE(PutDurably(n, 400000));
  Stop();
  options_.capacity_bytes = 6 << 20;
  ASSERT_TRUE(Start().ok());
  Do([&] { EXPECT_LE(tier_->total_bytes(), options_.capacity_bytes); });
  EXPECT_TRUE(Right(28, 400000));
  EXPECT_FALSE(OnDisk(1));
}

TEST_P(DiskTierTest, TheListOfWhatIsOnDiskIsBounded) {
  options_.max_segments = 300;
  ASSERT_TRUE(Start().ok());
  for (uint64_t n = 1; n <= 900;) {
    std::vector<uint64_t> numbers;
    for (int i = 0; i < 100; ++i, ++n) {
      ASSERT_EQ(Put(n, 3000), StatusCode::kOk);
      numbers.push_back(n);
    }
    Persist(numbers);
    EXPECT_LE(DiskSegments(), 300u + 256);  // whole regions go, of about 256 here
  }
  EXPECT_TRUE(OnDisk(900));
  EXPECT_FALSE(OnDisk(1));
}

}  // namespace
}  // namespace ember::kv::testing
