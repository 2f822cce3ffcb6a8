// The disk tier when the disk, the files or the process let it down. Whatever happens: right bytes
// or a miss.
#include <sys/mount.h>
#include <sys/stat.h>

#include "kvstore/disk/directory_lock.h"
#include "tests/unit/kvstore/disk_fixture.h"
#include "tests/unit/support/eventually.h"

namespace ember::kv::testing {
namespace {

size_t OpenDescriptors() {
  return static_cast<size_t>(
      std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {}));
}

class DiskFaultTest : public DiskTest {
 protected:
  static constexpr size_t kLength = 400000;  // five to a region

  uint64_t RegionBytes() {
    uint64_t total = 0;
    for (const auto& entry : std::filesystem::directory_iterator(options_.directory + "/shard-0")) {
      if (RegionOfName(entry.path().filename().string())) total += entry.file_size();
    }
    return total;
  }
};
EMBER_DISK_BACK_ENDS(DiskFaultTest);

// A record cut at every sector: what came before it stays, it is not listed, and its place is used
// again.
TEST_P(DiskFaultTest, ATornTailIsDroppedAtEveryPlaceItCanTear) {
  constexpr size_t kSmall = 5000;
  ASSERT_TRUE(Start().ok());
  ASSERT_TRUE(PutDurably(1, kSmall));
  ASSERT_TRUE(PutDurably(2, kSmall));
  const DiskEntry last = Where(2);
  const std::string file = RegionFile(last.region);
  const uint64_t end = last.offset() + RecordHead{.segment = last.record}.record_bytes();
  Kill();
  const uint64_t data_end =
      last.offset() + kBlockBytes + last.record.payload_length + last.record.header_length;
  std::string whole(end - last.offset(), '\0');
  std::ifstream(file, std::ios::binary)
      .seekg(static_cast<std::streamoff>(last.offset()))
      .read(whole.data(), static_cast<std::streamsize>(whole.size()));
  for (uint64_t cut = last.offset(); cut < end; cut += 512) {
    Overwrite(file, last.offset(), whole);
    Overwrite(file, cut, std::string(end - cut, '\0'));
    LoseCatalog();
    ASSERT_TRUE(Start().ok());
    EXPECT_TRUE(Right(1, kSmall));
    EXPECT_EQ(OnDisk(2), cut >= data_end) << cut - last.offset();
    if (OnDisk(2)) EXPECT_TRUE(Right(2, kSmall));
    Kill();
  }
  Overwrite(file, last.offset() + 600, std::string(1000, 'x'));
  LoseCatalog();
  ASSERT_TRUE(Start().ok());
  EXPECT_FALSE(OnDisk(2));
  ASSERT_TRUE(PutDurably(3, kSmall));
  EXPECT_EQ(Where(3).offset(), last.offset());
}

// A record that is bad does not hide the good ones behind it, wherever one looks from.
TEST_P(DiskFaultTest, RecordsBehindABadOneAreFound) {
  ASSERT_TRUE(Start().ok());
  for (uint64_t n = 1; n <= 4; ++n) ASSERT_TRUE(PutDurably(n, 20000));
  const DiskEntry second = Where(2);
  Kill();
  Overwrite(RegionFile(second.region), second.offset() + 10, "damage");
  LoseCatalog();
  ASSERT_TRUE(Start().ok());
  EXPECT_FALSE(OnDisk(2));
  for (uint64_t n : {1, 3, 4}) EXPECT_TRUE(Right(n, 20000));
}

TEST_P(DiskFaultTest, AFlippedBitInStoredBytesIsAMissAndTheCopyGoes) {
  ASSERT_TRUE(Start().ok());
  for (uint64_t n = 1; n <= 3; ++n) ASSERT_TRUE(PutDurably(n, 20000));
  const DiskEntry payload = Where(1), header = Where(2);
  Stop();
  Overwrite(RegionFile(payload.region), payload.offset() + kBlockBytes + 12345, "!");
  Overwrite(RegionFile(header.region), header.offset() + kBlockBytes + 20000 + 40, "!");
  ASSERT_TRUE(Start().ok());
  const uint64_t before = metrics_.corruptions.value();
  for (uint64_t n : {1, 2}) {
    EXPECT_TRUE(OnDisk(n));
    EXPECT_TRUE(Get(n).empty());
    EXPECT_EQ(miss_, MissReason::kCorrupt);
    EXPECT_FALSE(OnDisk(n));
  }
  EXPECT_EQ(metrics_.corruptions.value() - before, 2u);
  EXPECT_TRUE(Right(3, 20000));
  // A fresh copy is taken and kept.
  EXPECT_TRUE(PutDurably(1, 20000));
  EXPECT_TRUE(Right(1, 20000));
  // Of two records of one key the later counts, when there is only what they say themselves.
  Kill();
  LoseCatalog();
  ASSERT_TRUE(Start().ok());
  EXPECT_TRUE(Right(1, 20000));
}

TEST_P(DiskFaultTest, DamagedHeadersAndFootersCostNothingWhileAnythingElseTells) {
  ASSERT_TRUE(Start().ok());
  for (uint64_t n = 1; n <= 12; ++n) ASSERT_TRUE(PutDurably(n, kLength));
  const std::string first = RegionFile(Where(1).region);
  Stop();
  const auto expect_all = [&] {
    ASSERT_TRUE(Start().ok());
    for (uint64_t n = 1; n <= 12; ++n) EXPECT_TRUE(Right(n, kLength)) << n;
    Stop();
  };
  const uint64_t length = std::filesystem::file_size(first);
  Overwrite(first, 100, "damage");  // header: the trailer stands in
  LoseCatalog();
  expect_all();
  Overwrite(first, length - 4000, "damage");  // and trailer: the catalog does
  expect_all();
}

// C13: files deleted, cut, zeroed and swapped under the running process.
TEST_P(DiskFaultTest, C13_FilesThatChangeUnderneathAreMissesAndNothingLeaks) {
  options_.capacity_bytes = 32 << 20;
  ASSERT_TRUE(Start().ok());
  constexpr uint64_t kCount = 50;
  for (uint64_t n = 1; n <= kCount; ++n) ASSERT_TRUE(PutDurably(n, kLength));
  Stop();
  ASSERT_TRUE(Start().ok());
  for (uint64_t n = 1; n <= kCount; ++n) EXPECT_TRUE(Right(n, kLength));
  Stop();
  ASSERT_TRUE(Start().ok());
  const size_t descriptors = OpenDescriptors();
  const std::string cut = RegionFile(Where(1).region), zeroed = RegionFile(Where(6).region),
                    one = RegionFile(Where(11).region), other = RegionFile(Where(16).region);
  std::filesystem::resize_file(cut, 3 * kBlockBytes);
  Overwrite(zeroed, 0, std::string(std::filesystem::file_size(zeroed), '\0'));
  {
    std::string a(std::filesystem::file_size(one), '\0'), b(a.size(), '\0');
    std::ifstream(one, std::ios::binary).read(a.data(), static_cast<std::streamsize>(a.size()));
    std::ifstream(other, std::ios::binary).read(b.data(), static_cast<std::streamsize>(b.size()));
    Overwrite(one, 0, b);
    Overwrite(other, 0, a);
  }
  int misses = 0;
  for (uint64_t n = 1; n <= 25; ++n) {
    const Bytes payload = Get(n);
    if (payload.empty()) {
      ++misses;
      EXPECT_EQ(miss_, MissReason::kCorrupt);
      EXPECT_FALSE(OnDisk(n));
    } else {
      EXPECT_TRUE(IsPayloadOf(n, payload)) << n;
    }
  }
  EXPECT_GE(misses, 10);
  EXPECT_EQ(OpenDescriptors(), descriptors);
  for (uint64_t n = 26; n <= kCount; ++n) EXPECT_TRUE(Right(n, kLength)) << n;
  Stop();
  std::filesystem::remove(RegionFile(0));
  ASSERT_TRUE(Start().ok());
  for (uint64_t n = 1; n <= kCount; ++n) {
    const Bytes payload = Get(n);
    if (!payload.empty()) EXPECT_TRUE(IsPayloadOf(n, payload)) << n;
  }
}

TEST_P(DiskFaultTest, SwappedFileNamesAreNoticedAtTheNextStart) {
  ASSERT_TRUE(Start().ok());
  for (uint64_t n = 1; n <= 15; ++n) ASSERT_TRUE(PutDurably(n, kLength));
  const std::string one = RegionFile(Where(1).region), other = RegionFile(Where(6).region);
  Stop();
  std::filesystem::rename(one, one + ".x");
  std::filesystem::rename(other, one);
  std::filesystem::rename(one + ".x", other);
  ASSERT_TRUE(Start().ok());
  for (uint64_t n = 1; n <= 10; ++n) EXPECT_TRUE(Get(n).empty());
  for (uint64_t n = 11; n <= 15; ++n) EXPECT_TRUE(Right(n, kLength));
}

TEST_P(DiskFaultTest, AFileThatCantBeOpenedIsLeftAloneAndFoundInALaterRun) {
  ASSERT_TRUE(Start().ok());
  ASSERT_TRUE(PutDurably(1, kLength));
  const std::string file = RegionFile(Where(1).region);
  Stop();
  std::filesystem::rename(file, options_.directory + "/aside");
  std::filesystem::create_directory(file);
  ASSERT_TRUE(Start().ok());
  EXPECT_TRUE(Get(1).empty());
  ASSERT_TRUE(PutDurably(2, kLength));
  EXPECT_NE(RegionFile(Where(2).region), file);
  Stop();
  std::filesystem::remove(file);
  std::filesystem::rename(options_.directory + "/aside", file);
  ASSERT_TRUE(Start().ok());
  EXPECT_TRUE(Right(1, kLength));
  EXPECT_TRUE(Right(2, kLength));
}

TEST_P(DiskFaultTest, TheScrubberFindsDamageBeforeAnybodyAsks) {
  options_.scrub_bytes_per_second = 1ull << 30;
  options_.scrub_interval = milliseconds(20);
  ASSERT_TRUE(Start().ok());
  ASSERT_TRUE(PutDurably(1, 20000));
  ASSERT_TRUE(PutDurably(2, 20000));
  const DiskEntry where = Where(1);
  Overwrite(RegionFile(where.region), where.offset() + kBlockBytes + 777, "!");
  EXPECT_TRUE(Eventually([&] { return !OnDisk(1); }));
  EXPECT_TRUE(OnDisk(2));
  EXPECT_TRUE(Right(1, 20000));  // memory still has it
  Do([&] {
    std::optional<Hold> hold = engine_->HoldStored(KeyOf(2));
    const_cast<std::byte&>(hold->payload()[5]) ^= std::byte{1};
  });
  EXPECT_TRUE(Eventually([&] { return !InMemory(2); }));
  EXPECT_GT(metrics_.memory_corruptions.value(), 0u);
  EXPECT_TRUE(Right(2, 20000));  // from disk
  std::filesystem::remove(RegionFile(where.region));
  EXPECT_TRUE(Eventually([&] { return metrics_.scrubbed_bytes.value() > 100000; }));
}

// C8: a crash between data and catalog leaves nothing behind for ever.
TEST_P(DiskFaultTest, C8_CrashesBeforeTheCatalogLeakNoSpace) {
  ASSERT_TRUE(Start().ok());
  uint64_t number = 0;
  for (int round = 0; round < 20; ++round) {
    Do([&] { catalog_.frozen = true; });
    for (int i = 0; i < 2; ++i) ASSERT_TRUE(PutDurably(++number, 100000));
    Kill();
    ASSERT_TRUE(Start().ok());
    uint64_t live = 0;
    Do([&] { live = engine_->disk().live_bytes(); });
    ASSERT_EQ(DiskSegments(), number);
    EXPECT_LE(RegionBytes(), live * 11 / 10 + 2 * options_.region_bytes);
  }
  for (uint64_t n = 1; n <= number; ++n) EXPECT_TRUE(Right(n, 100000));
}

// C14: a restart throws nothing away because some lease has run out since.
TEST_P(DiskFaultTest, C14_LeasesOfAnEarlierRunMeanNothing) {
  engine_options_.max_lease = milliseconds(1);
  ASSERT_TRUE(Start().ok());
  ASSERT_TRUE(PutDurably(1, 1000));
  Do([&] {
    const std::vector<BlockKey> keys = {KeyOf(1)};
    EXPECT_NE(engine_->Match(1, keys, seconds(1)).lease_id, 0u);
  });
  Stop();
  ASSERT_TRUE(Start().ok());
  EXPECT_TRUE(Right(1, 1000));
}

// P3: the process dies between a purge and its journal; what was put meanwhile carries an epoch
// that the next run has never heard of. The next purge must cover it all the same.
TEST_P(DiskFaultTest, APurgeAfterOneThatWasCutShortCoversWhatCameBetween) {
  ASSERT_TRUE(Start().ok());
  Do([this] { engine_->Purge(PurgeScope::OfNamespace(NamespaceOf(99)), 1); });
  ASSERT_TRUE(PutDurably(1, 1000));
  Kill();
  ASSERT_TRUE(Start().ok());
  ASSERT_TRUE(Right(1, 1000));
  ASSERT_TRUE(OnLoop([&]() -> io::Task<Status> {
                const uint64_t epoch = engine_->tombstones().epoch() + 1;
                engine_->Purge(PurgeScope::Everything(), epoch);
                co_return co_await tier_->RecordPurge(PurgeScope::Everything(), epoch);
              }).ok());
  EXPECT_TRUE(Get(1).empty());
  Kill();
  ASSERT_TRUE(Start().ok());
  EXPECT_TRUE(Get(1).empty());
}

// A region file that can't be opened, which is known at once: who waits hears of it, though nobody
// else comes.
TEST_P(DiskFaultTest, AFileThatCannotBeOpenedIsToldToWhoWaits) {
  ASSERT_TRUE(Start().ok());
  std::filesystem::create_directory(RegionFile(0));
  ASSERT_EQ(Put(1, 1000), StatusCode::kOk);
  EXPECT_EQ(Persist({1}), std::vector{StatusCode::kUnavailable});
  std::filesystem::remove(RegionFile(0));
  EXPECT_TRUE(Eventually([&] { return metrics_.degraded_io_error.value() == 0; }));
  EXPECT_EQ(Persist({1}), std::vector{StatusCode::kOk});
}

// ---- the directory

TEST_P(DiskFaultTest, AnotherOnesDirectoryIsRefusedWithWhatToDo) {
  ASSERT_TRUE(Start().ok());
  ASSERT_TRUE(PutDurably(1, 1000));
  Stop();
  const Identity mine = options_.identity;
  for (const Identity& other :
       {Identity{"x", "s1", 1}, Identity{"c", "s2", 1}, Identity{"c", "s1", 2}}) {
    options_.identity = other;
    const Status status = Start();
    EXPECT_EQ(status.code(), StatusCode::kMismatch);
    EXPECT_NE(status.message().find(options_.directory), std::string::npos);
    EXPECT_NE(status.message().find(": "), std::string::npos);
  }
  options_.identity = mine;
  ASSERT_TRUE(Start().ok());
  EXPECT_TRUE(Right(1, 1000));
}

TEST_P(DiskFaultTest, ANewerFormatIsRefusedAndLeftAlone) {
  std::filesystem::create_directories(options_.directory);
  const std::string path = options_.directory + "/IDENTITY";
  std::ofstream(path) << "EmberKV data directory\nformat=2\nwhatever=else\n";
  const Status status = Start();
  EXPECT_EQ(status.code(), StatusCode::kMismatch);
  EXPECT_NE(status.message().find("format is 2"), std::string::npos) << status.ToString();
  EXPECT_FALSE(std::filesystem::exists(options_.directory + "/shard-0"));
}

TEST_P(DiskFaultTest, ADirectoryOfSomethingElseIsRefused) {
  std::filesystem::create_directories(options_.directory);
  std::ofstream(options_.directory + "/thesis.tex") << "years of work";
  const Status status = Start();
  EXPECT_EQ(status.code(), StatusCode::kMismatch);
  EXPECT_NE(status.message().find("empty directory"), std::string::npos);
}

TEST(DirectoryLockTest, KeepsASecondProcessOut) {
  TestFolder folder;
  auto first = DirectoryLock::Take(folder.path());
  ASSERT_TRUE(first.ok());
  const Status second = DirectoryLock::Take(folder.path()).status();
  EXPECT_EQ(second.code(), StatusCode::kBusy);
  EXPECT_NE(second.message().find("another process"), std::string::npos);
  first->reset();
  EXPECT_TRUE(DirectoryLock::Take(folder.path()).ok());
}

// ---- no room

// A file system of the test's own size, unmounted at its end.
class SmallDiskTest : public DiskFaultTest {
 protected:
  static constexpr uint64_t kSize = 24 << 20;

  void SetUp() override {
    DiskFaultTest::SetUp();
    if (IsSkipped()) return;
    std::filesystem::create_directories(options_.directory);
    const std::string size = "size=" + std::to_string(kSize);
    if (mount("ember", options_.directory.c_str(), "tmpfs", 0, size.c_str()) != 0) {
      GTEST_SKIP() << "mounting a tmpfs needs root: " << std::strerror(errno);
    }
    mounted_ = true;
    options_.capacity_bytes = 1 << 30;  // far more than there is
  }
  void TearDown() override {
    DiskFaultTest::TearDown();
    if (mounted_) umount(options_.directory.c_str());
  }

  bool mounted_ = false;
};
EMBER_DISK_BACK_ENDS(SmallDiskTest);

// C10: five times the file system's size is written; old regions go, nothing breaks.
TEST_P(SmallDiskTest, C10_AFullFileSystemEvictsInsteadOfFailing) {
  options_.min_free_bytes = 4 << 20;
  ASSERT_TRUE(Start().ok());
  const uint64_t count = 5 * kSize / kLength;
  for (uint64_t n = 1; n <= count; ++n) ASSERT_TRUE(PutDurably(n, kLength)) << n;
  EXPECT_GT(metrics_.evicted_regions.value(), 0u);
  Kill();
  ASSERT_TRUE(Start().ok());
  int there = 0;
  for (uint64_t n = 1; n <= count; ++n) {
    if (!OnDisk(n)) continue;
    EXPECT_TRUE(Right(n, kLength));
    ++there;
  }
  EXPECT_GT(there, 30);
}

TEST_P(SmallDiskTest, NoRoomAtAllIsDegradedAndRecoversWithoutARestart) {
  const std::string ballast = options_.directory + "/lost+found";
  std::filesystem::create_directories(ballast);
  ASSERT_TRUE(Start().ok());
  std::ofstream(ballast + "/full", std::ios::binary) << std::string(kSize - (1 << 20), 'x');
  ASSERT_EQ(Put(1, kLength), StatusCode::kOk);
  EXPECT_EQ(Persist({1}), std::vector{StatusCode::kNoSpace});
  EXPECT_EQ(metrics_.degraded_no_space.value(), 1);
  EXPECT_TRUE(Right(1, kLength));
  EXPECT_EQ(Put(2, kLength), StatusCode::kOk);  // memory goes on
  std::filesystem::remove(ballast + "/full");
  EXPECT_TRUE(Eventually([&] { return metrics_.degraded_no_space.value() == 0; }));
  EXPECT_EQ(Persist({1, 2}), std::vector(2, StatusCode::kOk));
}

}  // namespace
}  // namespace ember::kv::testing
