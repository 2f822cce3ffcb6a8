#include "client/cli/store_suite.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/unit/store_client/client_fixture.h"

namespace ember::cli {
namespace {

class StoreSuiteTest : public ::testing::Test, public testing::ClientFixture {
 protected:
  StoreSuiteTest() : ClientFixture(io::Backend::kEpoll) { StartNodes(1); }
  // Small ones, without those that take 4 MiB a segment.
  const StoreSuiteOptions options_{
      .only = {"prefix_load", "prefix_put", "cpu_prefix_load", "get_64k_p50", "match_256",
               "idle_rss_mib", "memory_overhead"},
      .node = getpid(),
      .scale = 0.01,
      .buffer_bytes = 4 << 20};
};

TEST_F(StoreSuiteTest, MeasuresWhatIsAskedFor) {
  const auto client = Connect();
  Result<std::vector<BenchFigure>> figures = StoreSuite(*client, options_).Run();
  ASSERT_TRUE(figures.ok()) << figures.status().ToString();
  std::set<std::string> names;
  for (const BenchFigure& figure : *figures) {
    names.insert(figure.name);
    EXPECT_FALSE(figure.unit.empty()) << figure.name;
    if (figure.name != "memory_overhead") EXPECT_GT(figure.value, 0) << figure.name;
  }
  EXPECT_EQ(names, options_.only);
}

TEST_F(StoreSuiteTest, WrongBytesAreNoFigures) {
  nodes[0]->set_fault(testing::Fault::kFlipsByte);
  EXPECT_FALSE(StoreSuite(*Connect(), options_).Run().ok());
}

}  // namespace
}  // namespace ember::cli
