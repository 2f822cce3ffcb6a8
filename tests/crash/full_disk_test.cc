// C10: a real node on a file system that is too small, or full, or filled up by others.
#include <sys/mount.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <cstring>
#include <fstream>

#include "tests/crash/store_fixture.h"

namespace ember::testing {
namespace {

constexpr uint64_t kFileSystem = 48 << 20;
constexpr size_t kChainSegments = 8, kSegmentBytes = 100'000;

class FullDiskTest : public ::testing::TestWithParam<std::string> {
 protected:
  // More disk than there is; regions of 8 MiB.
  FullDiskTest()
      : store_({"--disk=64MiB", "--memory=8MiB", "--max-segment=256KiB", "--scrub-rate=0",
                "--io=" + GetParam()}) {}
  void SetUp() override {
    std::filesystem::create_directories(store_.data().path());
    const std::string size = "size=" + std::to_string(kFileSystem);
    if (mount("ember-test", store_.data().path().c_str(), "tmpfs", 0, size.c_str()) != 0) {
      GTEST_SKIP() << "mounting a file system needs root: " << std::strerror(errno);
    }
    mounted_ = true;
    std::filesystem::create_directories(Ballast().parent_path());
  }
  void TearDown() override {
    store_.node().Kill();
    if (mounted_) EXPECT_EQ(umount(store_.data().path().c_str()), 0) << std::strerror(errno);
  }

  // A folder that a fresh file system may have, so that the node doesn't mind.
  std::filesystem::path Ballast() const { return store_.data().path() + "/lost+found/ballast"; }
  // All but `left` bytes are taken by somebody else.
  void FillUp(uint64_t left) {
    std::ofstream file(Ballast(), std::ios::binary | std::ios::app);
    const std::string piece(4096, 'x');
    while (FreeBytes() > left && file.write(piece.data(), 4096).flush()) {
    }
  }
  void Free() { std::filesystem::remove(Ballast()); }
  uint64_t FreeBytes() const {
    struct statvfs space {};
    statvfs(store_.data().path().c_str(), &space);
    return uint64_t{space.f_bavail} * space.f_frsize;
  }
  static size_t DiskCopies(const std::vector<PutOutcome>& outcomes) {
    return std::ranges::count_if(outcomes, [](const PutOutcome& o) { return o.disk_copies > 0; });
  }
  static size_t Copies(const std::vector<PutOutcome>& outcomes) {
    return std::ranges::count_if(outcomes, [](const PutOutcome& o) { return o.copies > 0; });
  }
  size_t LinesWith(const std::string& text) {
    const std::string log = store_.node().LogSinceStart();
    size_t count = 0;
    for (size_t at = log.find(text); at != log.npos; at = log.find(text, at + 1)) ++count;
    return count;
  }

  StoreFixture store_;
  bool mounted_ = false;
};
INSTANTIATE_TEST_SUITE_P(BackEnds, FullDiskTest, ::testing::Values("auto", "epoll"),
                         [](const auto& info) { return info.param; });

TEST_P(FullDiskTest, C10_FiveTimesTheFileSystemGoesThroughIt) {
  store_.Start();
  const auto client = store_.Connect();
  const uint32_t chains = 5 * kFileSystem / (kChainSegments * kSegmentBytes);
  for (uint32_t i = 0; i < chains; ++i) {
    const Oracle chain(i, kChainSegments, kSegmentBytes);
    ASSERT_EQ(DiskCopies(chain.Put(*client, seconds(30), {.ack = AckLevel::kDisk})), kChainSegments)
        << i;
    // Gets go on: the newest is there, an old one is right or a miss.
    Reuse now, old;
    now.Add(chain, *client);
    old.Add(Oracle(i / 2, kChainSegments, kSegmentBytes), *client);
    ASSERT_EQ(now.hits, kChainSegments) << i;
    ASSERT_EQ(now.wrong + old.wrong, 0u) << i;
  }
  EXPECT_GT(store_.node().Metric("ember_store_disk_evicted_regions_total"), 10);
  EXPECT_EQ(store_.node().Metric("ember_store_disk_degraded"), 0);
  EXPECT_EQ(store_.node().Metric("ember_store_disk_write_errors_total"), 0);
  store_.node().Kill();
  store_.Start();
  const auto again = store_.Connect();
  Reuse newest, all;
  newest.Add(Oracle(chains - 1, kChainSegments, kSegmentBytes), *again);
  for (uint32_t i = 0; i < chains; ++i) all.Add(Oracle(i, kChainSegments, kSegmentBytes), *again);
  EXPECT_EQ(newest.hits, kChainSegments);
  EXPECT_EQ(all.wrong, 0u);
  EXPECT_GT(all.hits, all.asked / 10);  // of the fifth that fits
}

TEST_P(FullDiskTest, C10_NoRoomIsDegradedUntilThereIsSome) {
  FillUp(6 << 20);  // less than one region
  store_.Start();
  const auto client = store_.Connect();
  const Oracle first(1, kChainSegments, kSegmentBytes), second(2, kChainSegments, kSegmentBytes);
  const auto refused = first.Put(*client, seconds(30), {.ack = AckLevel::kDisk});
  EXPECT_EQ(Copies(refused), kChainSegments);  // in memory
  EXPECT_EQ(DiskCopies(refused), 0u);
  for (uint32_t i = 10; i < 30; ++i)
    Oracle(i, kChainSegments, kSegmentBytes).Put(*client);  // memory goes on
  Reuse reuse;
  reuse.Add(Oracle(29, kChainSegments, kSegmentBytes), *client);
  EXPECT_EQ(reuse.hits, kChainSegments);
  EXPECT_EQ(store_.node().Metric("ember_store_disk_degraded", "no_space"), 1);
  EXPECT_EQ(LinesWith("disk tier degraded"), 1u) << store_.node().LogSinceStart();
  Free();
  EXPECT_TRUE(store_.EventuallyMetric("ember_store_disk_degraded", 0));
  EXPECT_EQ(LinesWith("disk tier takes segments again"), 1u) << store_.node().LogSinceStart();
  EXPECT_EQ(DiskCopies(second.Put(*client, seconds(30), {.ack = AckLevel::kDisk})), kChainSegments);
  store_.node().Kill();
  store_.Start();
  Reuse kept;
  kept.Add(second, *store_.Connect());
  EXPECT_EQ(kept.hits, kChainSegments);
}

// Not a byte is left, not even for the catalog or a purge: what was promised holds, through a
// restart as well, and new segments take the place of old ones.
TEST_P(FullDiskTest, C10_NotAByteLeft) {
  store_.Start();
  std::vector<Oracle> before, meanwhile;
  const auto client = store_.Connect();
  for (uint32_t i = 0; i < 20; ++i) {
    before.emplace_back(i, kChainSegments, kSegmentBytes);
    ASSERT_EQ(DiskCopies(before.back().Put(*client, seconds(30), {.ack = AckLevel::kDisk})),
              kChainSegments);
  }
  FillUp(0);
  // What the open region has room for.
  for (uint32_t i = 100; i < 104; ++i) {
    meanwhile.emplace_back(i, kChainSegments, kSegmentBytes);
    EXPECT_EQ(Copies(meanwhile.back().Put(*client, seconds(30), {.ack = AckLevel::kMemory})),
              kChainSegments);
  }
  Reuse reuse;
  for (const Oracle& chain : before) reuse.Add(chain, *client);
  EXPECT_EQ(reuse.hits, reuse.asked);
  EXPECT_EQ(reuse.wrong, 0u);
  for (const bool killed : {true, false}) {
    SCOPED_TRACE(killed);
    if (killed) {
      store_.node().Kill();
    } else {
      EXPECT_TRUE(store_.node().Stop());
    }
    store_.Start();
    const auto again = store_.Connect();
    Reuse kept;
    for (const Oracle& chain : before) kept.Add(chain, *again);
    EXPECT_EQ(kept.hits, kept.asked);
    EXPECT_EQ(kept.wrong, 0u);
  }
  Free();
  const auto again = store_.Connect();
  const Oracle after(200, kChainSegments, kSegmentBytes);
  EXPECT_TRUE(Eventually(
      [&] {
        return DiskCopies(after.Put(*again, seconds(30), {.ack = AckLevel::kDisk})) > 0 ||
               after.Put(*again)[0].was_there;
      },
      seconds(30)));
  EXPECT_TRUE(store_.EventuallyMetric("ember_store_disk_catalog_pending_rows", 0));
}

}  // namespace
}  // namespace ember::testing
