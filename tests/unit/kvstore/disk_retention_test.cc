// What must not come back from disk: what was purged, and what has expired.
#include "tests/unit/kvstore/disk_fixture.h"
#include "tests/unit/support/eventually.h"

namespace ember::kv::testing {
namespace {

class DiskRetentionTest : public DiskTest {};
EMBER_DISK_BACK_ENDS(DiskRetentionTest);

TEST_P(DiskRetentionTest, APurgeHoldsAfterARestartEvenWithoutTheCatalog) {
  ASSERT_TRUE(Start().ok());
  ASSERT_TRUE(PutDurably(1, 1000));
  ASSERT_TRUE(OnLoop([&]() -> io::Task<Status> {
                engine_->Purge(PurgeScope::Everything(), 7);
                co_return co_await tier_->RecordPurge(PurgeScope::Everything(), 7);
              }).ok());
  EXPECT_FALSE(OnDisk(1));
  EXPECT_TRUE(Get(1).empty());
  EXPECT_EQ(miss_, MissReason::kPurged);
  ASSERT_TRUE(PutDurably(2, 1000));
  for (bool lose : {false, true}) {
    Kill();
    if (lose) LoseCatalog();
    ASSERT_TRUE(Start().ok());
    EXPECT_FALSE(OnDisk(1));
    EXPECT_TRUE(Get(1).empty());
    EXPECT_TRUE(Right(2, 1000));
  }
}

TEST_P(DiskRetentionTest, ADamagedPurgeJournalDropsEverythingOlder) {
  ASSERT_TRUE(Start().ok());
  ASSERT_TRUE(PutDurably(1, 1000));
  ASSERT_TRUE(OnLoop([&]() -> io::Task<Status> {
                engine_->Purge(PurgeScope::Everything(), 7);
                co_return co_await tier_->RecordPurge(PurgeScope::Everything(), 7);
              }).ok());
  ASSERT_TRUE(PutDurably(2, 1000));
  Stop();
  Overwrite(PurgesPath(options_.directory, 0), 20, "x");
  ASSERT_TRUE(Start().ok());
  EXPECT_FALSE(OnDisk(1));
  EXPECT_FALSE(OnDisk(2));
  ASSERT_TRUE(PutDurably(3, 1000));
  Stop();
  ASSERT_TRUE(Start().ok());
  EXPECT_FALSE(OnDisk(1));
  EXPECT_FALSE(OnDisk(2));
  EXPECT_TRUE(Right(3, 1000));
}

TEST_P(DiskRetentionTest, WhatHasExpiredIsNotReadBack) {
  engine_options_.ttl = milliseconds(200);
  ASSERT_TRUE(Start().ok());
  ASSERT_TRUE(PutDurably(1, 1000));
  Stop();
  EXPECT_TRUE(Eventually([&] {
    if (!Start().ok()) return false;
    const bool gone = !OnDisk(1);
    Stop();
    return gone;
  }));
}

}  // namespace
}  // namespace ember::kv::testing
