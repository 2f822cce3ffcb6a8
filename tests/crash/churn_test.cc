// P7: hours of churn in seconds: memory, disk and descriptors of a real node stay where they are.
#include "tests/crash/store_fixture.h"
#include "tests/unit/support/sanitized.h"

namespace ember::testing {
namespace {

constexpr uint64_t kMiB = 1 << 20;
constexpr uint64_t kMemory = 24 * kMiB, kDisk = 48 * kMiB;
// What a node takes beside its segments: RocksDB, code, buffers, index.
constexpr uint64_t kBesides = 48 * kMiB;
constexpr uint64_t kSlope = 8 * kMiB;

class ChurnTest : public ::testing::TestWithParam<std::string> {
 protected:
  ChurnTest()
      : store_({"--disk=" + std::to_string(kDisk >> 20) + "MiB",
                "--memory=" + std::to_string(kMemory >> 20) + "MiB", "--max-segment=256KiB",
                "--scrub-rate=32MiB", "--disk-write=" + GetParam()}) {}
  // Puts and reads, of all sizes, several times both caps.
  void Churn(StoreClient& client, uint32_t round) {
    static constexpr uint32_t kSizes[] = {500, 3000, 8000, 30'000, 200'000};
    for (uint32_t i = 0; i < 300; ++i) {
      const uint32_t seed = round * 1000 + i;
      const Oracle chain(seed, 8, kSizes[i % std::size(kSizes)]);
      const AckLevel ack = i % 8 == 0 ? AckLevel::kDisk : AckLevel::kMemory;
      for (const PutOutcome& outcome : chain.Put(client, seconds(30), {.ack = ack})) {
        EXPECT_EQ(outcome.copies, 1u) << outcome.status.ToString();
      }
      const Oracle earlier(seed - seed % 7, 8, kSizes[(i - seed % 7) % std::size(kSizes)]);
      EXPECT_EQ(earlier.Get(client).wrong, 0u);
    }
  }
  StoreFixture store_;
};
INSTANTIATE_TEST_SUITE_P(Policies, ChurnTest,
                         ::testing::Values("through", "second-use", "demotion"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::erase(name, '-');
                           return name;
                         });

TEST_P(ChurnTest, P7_MemoryDiskAndDescriptorsStayFlat) {
  store_.Start();
  const auto client = store_.Connect();
  for (uint32_t round = 1; round <= 3; ++round) Churn(*client, round);
  const uint64_t resident = store_.node().ResidentBytes();
  const uint64_t descriptors = store_.node().OpenDescriptors();
  for (uint32_t round = 4; round <= 8; ++round) {
    Churn(*client, round);
    if (!kSanitized) EXPECT_LE(store_.node().ResidentBytes(), kMemory + kBesides);
    EXPECT_LE(store_.data().Measure().region_bytes, kDisk);
    EXPECT_LE(store_.node().Metric("ember_store_memory_used_bytes"), kMemory);
  }
  if (!kSanitized) EXPECT_LE(store_.node().ResidentBytes(), resident + kSlope);
  EXPECT_LE(store_.node().OpenDescriptors(), descriptors + 8);  // of the catalog's files
  EXPECT_LE(store_.data().Measure().other_bytes, 48 * kMiB);
  std::printf("resident %lu MiB, then %lu MiB; descriptors %lu, then %lu\n", resident >> 20,
              store_.node().ResidentBytes() >> 20, descriptors, store_.node().OpenDescriptors());
}

}  // namespace
}  // namespace ember::testing
