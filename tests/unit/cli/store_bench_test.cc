#include "client/cli/store_bench.h"

#include <gtest/gtest.h>

#include "tests/unit/store_client/client_fixture.h"

namespace ember::cli {
namespace {

class StoreBenchTest : public ::testing::Test, public testing::ClientFixture {
 protected:
  StoreBenchTest() : ClientFixture(io::Backend::kEpoll) {
    StartNodes(2);
    client_ = Connect();
  }
  const StoreBenchOptions options_{.segment_bytes = 5000,
                                   .batch = 4,
                                   .threads = 3,
                                   .duration = milliseconds(100),
                                   .working_set_bytes = 400'000};
  std::unique_ptr<StoreClient> client_;
};

TEST_F(StoreBenchTest, CountsWhatItDid) {
  auto bench = StoreBench::Make(*client_, options_);
  ASSERT_TRUE(bench.ok());
  const auto phases = bench->Run();
  ASSERT_EQ(phases.size(), 3u);
  EXPECT_EQ(phases[0].name, "put");
  EXPECT_EQ(phases[0].segments, 80u);
  EXPECT_EQ(phases[0].bytes, 400'000u);
  for (const BenchPhase& phase : phases) {
    EXPECT_EQ(phase.segments, phase.calls * 4);
    EXPECT_EQ(phase.missed, 0u);
    EXPECT_EQ(phase.wrong, 0u);
    EXPECT_EQ(phase.latencies_ms.size(), phase.calls);
    EXPECT_LE(phase.LatencyMs(0.5), phase.LatencyMs(0.99));
    EXPECT_LE(phase.LatencyMs(0.99), phase.LatencyMs(1));
  }
}

TEST_F(StoreBenchTest, MissesAreNotThroughput) {
  auto bench = StoreBench::Make(*client_, options_);
  for (auto& node : nodes) node->set_fault(testing::Fault::kFlipsByte);
  const auto phases = bench->Run();
  EXPECT_EQ(phases[2].segments, 0u);
  EXPECT_EQ(phases[2].bytes, 0u);
  EXPECT_EQ(phases[2].missed, phases[2].calls * 4);
}

TEST_F(StoreBenchTest, RefusesSizesThatCantBe) {
  for (const auto& [segment, batch, threads, working_set] :
       std::vector<std::tuple<uint64_t, uint32_t, uint32_t, uint64_t>>{{0, 1, 1, 100},
                                                                       {65ull << 20, 1, 1, 1 << 30},
                                                                       {10, 0, 1, 100},
                                                                       {10, 1, 0, 100},
                                                                       {10, 11, 1, 100},
                                                                       {1, 1, 1, 1 << 30}}) {
    const StoreBenchOptions bad{.segment_bytes = segment,
                                .batch = batch,
                                .threads = threads,
                                .working_set_bytes = working_set};
    EXPECT_EQ(StoreBench::Make(*client_, bad).status().code(), StatusCode::kInvalid);
  }
}

TEST(BenchPhase, PercentilesAreByNearestRank) {
  BenchPhase phase;
  EXPECT_EQ(phase.LatencyMs(0.5), 0);
  for (int i = 1; i <= 100; ++i) phase.latencies_ms.push_back(i);
  EXPECT_EQ(phase.LatencyMs(0.5), 50);
  EXPECT_EQ(phase.LatencyMs(0.99), 99);
  EXPECT_EQ(phase.LatencyMs(1), 100);
}

}  // namespace
}  // namespace ember::cli
