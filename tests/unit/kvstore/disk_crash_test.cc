// What a crash leaves of a region is told alike by its file and by the catalog, so that one of the
// two may be lost later.
#include "tests/unit/kvstore/disk_fixture.h"
#include "tests/unit/support/eventually.h"

namespace ember::kv::testing {
namespace {

class DiskCrashTest : public DiskTest {
 protected:
  static constexpr size_t kLength = 400000;  // five to a region
};
EMBER_DISK_BACK_ENDS(DiskCrashTest);

// A purge takes some of a region just before it is sealed, and is forgotten: catalog and footer
// tell the same of it.
TEST_P(DiskCrashTest, APurgeThatIsForgottenLeavesCatalogAndFooterAgreed) {
  ASSERT_TRUE(Start().ok());
  for (uint64_t n = 1; n <= 2; ++n) ASSERT_TRUE(PutDurably(n, kLength));
  Do([this] { engine_->Purge(PurgeScope::OfNamespace(KeyOf(1).ns), 1); });
  for (uint64_t n = 3; n <= 6; ++n) ASSERT_TRUE(PutDurably(n, kLength));
  ASSERT_TRUE(Eventually([&] {
    bool sealed = false;
    Do([&] { sealed = catalog_.contents[0].regions[0].row.sealed; });
    return sealed;
  }));
  Kill();
  ASSERT_TRUE(Start().ok());
  const bool there = OnDisk(1);
  Kill();
  LoseCatalog();
  ASSERT_TRUE(Start().ok());
  EXPECT_EQ(OnDisk(1), there);
}

// A loss of power may leave the catalog's row of a region that was just begun, and not its header.
TEST_P(DiskCrashTest, ARegionWhoseHeaderIsLostIsNotAppendedTo) {
  ASSERT_TRUE(Start().ok());
  ASSERT_TRUE(PutDurably(1, kLength));
  Kill();
  Overwrite(RegionFile(0), 0, std::string(kBlockBytes, '\0'));
  ASSERT_TRUE(Start().ok());
  EXPECT_TRUE(Right(1, kLength));
  ASSERT_TRUE(PutDurably(2, kLength));
  Kill();
  LoseCatalog();
  ASSERT_TRUE(Start().ok());
  EXPECT_TRUE(Right(2, kLength));
}

}  // namespace
}  // namespace ember::kv::testing
