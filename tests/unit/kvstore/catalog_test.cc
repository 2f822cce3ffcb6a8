// The catalog in RocksDB, and a directory checked offline.
#include <sys/mount.h>

#include "kvstore/disk/directory_check.h"
#include "kvstore/disk/rocks_catalog.h"
#include "tests/unit/kvstore/disk_fixture.h"
#include "tests/unit/support/eventually.h"

namespace ember::kv::testing {
namespace {

SegmentRecord RecordOf(uint64_t number) {
  return {.key = KeyOf(number), .payload_length = 100, .header_length = 100};
}

class CatalogTest : public ::testing::Test {
 protected:
  std::unique_ptr<RocksCatalog> Open() {
    lost_.clear();
    return *RocksCatalog::Open(folder_.path() + "/catalog", &lost_);
  }
  Status Write(RocksCatalog* catalog, CatalogBatch batch) {
    std::promise<Status> done;
    catalog->Write(&thread_->loop(), std::move(batch), [&](Status s) { done.set_value(s); });
    return done.get_future().get();
  }

  TestFolder folder_;
  std::string lost_;
  std::unique_ptr<io::LoopThread> thread_ = *io::LoopThread::Make(io::Backend::kEpoll);
};

TEST_F(CatalogTest, KeepsRowsAndForgetsRegionsAsAWhole) {
  const CatalogRegion row{.generation = 1, .sequence = 2, .catalogued = 9000, .sealed = false};
  {
    auto catalog = Open();
    for (uint32_t shard : {0u, 1u}) {
      CatalogBatch batch{.shard = shard};
      for (uint32_t region : {0u, 1u, 2u}) {
        batch.regions[region] = row;
        batch.records.emplace_back(region, PlacedRecord{4096, RecordOf(region)});
        batch.records.emplace_back(region, PlacedRecord{8192, RecordOf(region + 10)});
      }
      ASSERT_TRUE(Write(catalog.get(), std::move(batch)).ok());
    }
    CatalogBatch batch{.shard = 0, .removed_regions = {1}, .removed_records = {{2, 4096}}};
    batch.records.emplace_back(1, PlacedRecord{4096, RecordOf(99)});  // the file's next use
    ASSERT_TRUE(Write(catalog.get(), std::move(batch)).ok());
  }
  auto catalog = Open();
  EXPECT_EQ(lost_, "");
  CatalogContents zero = catalog->TakeContents(0), one = catalog->TakeContents(1);
  EXPECT_EQ(zero.regions[0].row, row);
  EXPECT_EQ(zero.regions[0].records.size(), 2u);
  EXPECT_EQ(zero.regions[1].records, (std::vector{PlacedRecord{4096, RecordOf(99)}}));
  EXPECT_EQ(zero.regions[2].records, (std::vector{PlacedRecord{8192, RecordOf(12)}}));
  EXPECT_EQ(one.regions[1].records.size(), 2u);
  EXPECT_TRUE(catalog->TakeContents(7).regions.empty());
}

TEST_F(CatalogTest, ADamagedOneIsMovedAside) {
  {
    auto catalog = Open();
    ASSERT_TRUE(Write(catalog.get(), {.shard = 0, .regions = {{0, CatalogRegion{}}}}).ok());
  }
  const std::string current = folder_.path() + "/catalog/CURRENT";
  std::ofstream(current) << "nonsense";
  EXPECT_EQ(RocksCatalog::Read(folder_.path() + "/catalog").status().code(), StatusCode::kCorrupt);
  auto catalog = Open();
  EXPECT_NE(lost_, "");
  EXPECT_TRUE(catalog->TakeContents(0).regions.empty());
  EXPECT_TRUE(std::filesystem::exists(folder_.path() + "/catalog.bad/CURRENT"));
  EXPECT_TRUE(Write(catalog.get(), {.shard = 0, .regions = {{0, CatalogRegion{}}}}).ok());
}

// C10
TEST_F(CatalogTest, AFullDiskIsWaitedForAndCostsNothing) {
  if (mount("ember", folder_.path().c_str(), "tmpfs", 0, "size=16m") != 0) {
    GTEST_SKIP() << "mounting a file system needs root: " << std::strerror(errno);
  }
  const std::string ballast = folder_.path() + "/ballast";
  const auto fill = [&] {
    std::ofstream file(ballast, std::ios::binary | std::ios::app);
    const std::string piece(4096, 'x');
    while (file.write(piece.data(), 4096).flush()) {
    }
  };
  uint64_t offset = 0;
  const auto write = [&](RocksCatalog* catalog) {
    CatalogBatch batch{.shard = 0, .regions = {{0, CatalogRegion{.generation = 1}}}};
    for (int i = 0; i < 100; ++i) {
      batch.records.emplace_back(0, PlacedRecord{offset += 4096, RecordOf(offset)});
    }
    return Write(catalog, std::move(batch));
  };
  auto catalog = Open();
  ASSERT_TRUE(write(catalog.get()).ok());
  fill();
  Status status;
  for (int i = 0; i < 1000 && status.ok(); ++i) status = write(catalog.get());
  EXPECT_FALSE(status.ok());
  std::filesystem::remove(ballast);
  EXPECT_TRUE(Eventually([&] { return write(catalog.get()).ok(); }));
  catalog.reset();

  fill();
  catalog = Open();
  const size_t records = catalog->TakeContents(0).regions[0].records.size();
  EXPECT_GT(records, 100u);
  EXPECT_FALSE(write(catalog.get()).ok());
  std::filesystem::remove(ballast);
  EXPECT_TRUE(Eventually([&] { return write(catalog.get()).ok(); }));
  catalog.reset();
  EXPECT_GE(Open()->TakeContents(0).regions[0].records.size(), records + 100);
  EXPECT_EQ(lost_, "");
  EXPECT_FALSE(std::filesystem::exists(folder_.path() + "/catalog.bad"));
  EXPECT_EQ(umount(folder_.path().c_str()), 0);
}

class DirectoryCheckTest : public DiskTest {
 protected:
  CheckReport Check(bool payloads = true) {
    auto thread = *io::LoopThread::Make(GetParam());
    CheckOptions options;
    options.payloads = payloads;
    options.catalog = catalog_.contents;
    auto report = io::RunOnLoop<Result<CheckReport>>(thread->loop(), [&] {
      return CheckDirectory(&thread->loop().files(), options_.directory, options);
    });
    EXPECT_TRUE(report.ok()) << report.status().ToString();
    return *report;
  }
};
EMBER_DISK_BACK_ENDS(DirectoryCheckTest);

TEST_P(DirectoryCheckTest, ACleanDirectoryIsClean) {
  ASSERT_TRUE(Start().ok());
  for (uint64_t n = 1; n <= 12; ++n) ASSERT_TRUE(PutDurably(n, 400000));
  Stop();
  for (bool payloads : {true, false}) {
    const CheckReport report = Check(payloads);
    EXPECT_EQ(report.damaged, 0u) << (report.findings.empty() ? "" : report.findings[0].reason);
    EXPECT_EQ(report.records, 12u);
    EXPECT_EQ(report.regions_sealed, 2u);
    EXPECT_EQ(report.regions_open, 1u);
    EXPECT_EQ(report.catalog_rows, 12u);
    EXPECT_EQ(report.torn, 0u);
    EXPECT_EQ(report.identity, options_.identity);
  }
}

TEST_P(DirectoryCheckTest, EveryKindOfDamageIsFoundWithItsPlace) {
  ASSERT_TRUE(Start().ok());
  for (uint64_t n = 1; n <= 12; ++n) ASSERT_TRUE(PutDurably(n, 400000));
  const DiskEntry payload = Where(1), head = Where(2), open = Where(12);
  Stop();
  Overwrite(RegionFile(payload.region), payload.offset() + 100000, "!");
  EXPECT_EQ(Check(false).damaged, 0u);  // quick: payloads are not looked at
  CheckReport report = Check();
  ASSERT_EQ(report.damaged, 1u);
  EXPECT_EQ(report.findings[0].offset, payload.offset());
  EXPECT_EQ(report.findings[0].path, RegionFile(payload.region));
  Overwrite(RegionFile(head.region), head.offset() + 8, "!");
  EXPECT_EQ(Check().damaged, 2u);
  Overwrite(RegionFile(open.region), open.offset() + 8, "!");
  EXPECT_EQ(Check().damaged, 3u);
  Overwrite(PurgesPath(options_.directory, 0), 0, "!");
  EXPECT_EQ(Check().damaged, 4u);
  std::filesystem::remove(RegionFile(open.region));
  report = Check();
  EXPECT_EQ(report.damaged, 4u);
  EXPECT_NE(report.findings[2].reason.find("gone"), std::string::npos);
}

TEST_P(DirectoryCheckTest, ATornTailIsNoDamage) {
  ASSERT_TRUE(Start().ok());
  ASSERT_TRUE(PutDurably(1, 20000));
  Do([&] { catalog_.frozen = true; });
  ASSERT_TRUE(PutDurably(2, 20000));
  const DiskEntry last = Where(2);
  Kill();
  Overwrite(RegionFile(last.region), last.offset() + 10000, "!");
  const CheckReport report = Check();
  EXPECT_EQ(report.damaged, 0u);
  EXPECT_EQ(report.torn, 1u);
  EXPECT_EQ(report.records, 1u);
}

TEST_P(DirectoryCheckTest, ACatalogReadFromRegionsServesAStart) {
  ASSERT_TRUE(Start().ok());
  for (uint64_t n = 1; n <= 12; ++n) ASSERT_TRUE(PutDurably(n, 400000));
  Stop();
  auto thread = *io::LoopThread::Make(GetParam());
  auto batches = io::RunOnLoop<Result<std::vector<CatalogBatch>>>(thread->loop(), [&] {
    return CatalogFromRegions(&thread->loop().files(), options_.directory);
  });
  ASSERT_TRUE(batches.ok());
  const auto before = catalog_.contents;
  LoseCatalog();
  for (const CatalogBatch& batch : *batches) {
    catalog_.Write(&thread->loop(), batch, [](Status) {});
  }
  for (const auto& [id, region] : before.at(0).regions) {
    EXPECT_EQ(catalog_.contents[0].regions[id].row, region.row);
    EXPECT_EQ(catalog_.contents[0].regions[id].records.size(), region.records.size());
  }
}

}  // namespace
}  // namespace ember::kv::testing
