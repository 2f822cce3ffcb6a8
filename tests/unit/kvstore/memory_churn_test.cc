// The memory tier in steady state: how much of it holds segments, whatever their sizes and whoever
// chooses what goes; and the cap, as the kernel sees it.

#include <functional>

#include "kvstore/engine/segment_index.h"
#include "tests/unit/kvstore/engine_fixture.h"

namespace ember::kv::testing {
namespace {

constexpr uint64_t kKiB = 1 << 10;
constexpr uint64_t kMiB = 1 << 20;
constexpr double kMostLost = 0.12;

struct Sizes {
  const char* name;
  std::function<uint64_t(SeededRandom*, int step)> next;
};

const Sizes kSizes[] = {
    {"uniform",
     [](SeededRandom* r, int) { return 64 * kKiB + r->Next() % (4 * kMiB - 64 * kKiB); }},
    {"bimodal", [](SeededRandom* r, int) { return r->Next() % 2 == 0 ? 64 * kKiB : 4 * kMiB; }},
    {"one", [](SeededRandom*, int) { return 512 * kKiB + 300; }},
    {"changing",
     [](SeededRandom* r, int step) {
       static constexpr uint64_t kBase[] = {512 * kKiB, 3 * kMiB, 96 * kKiB, 1280 * kKiB};
       const uint64_t base = kBase[step / 4000 % 4];
       return base + r->Next() % (base / 4);
     }},
};

class MemoryChurnTest
    : public ::testing::TestWithParam<std::tuple<std::string_view, const Sizes*>> {};

// Nothing is written: only the book-keeping counts here.
TEST_P(MemoryChurnTest, LosesLittleToHoles) {
  const auto& [policy, sizes] = GetParam();
  constexpr uint64_t kCapacity = 1024 * kMiB;
  constexpr int kSteps = 16000, kWarmUp = 4000;
  auto arena = *Arena::Make(kCapacity, false);
  MetricsRegistry registry;
  EngineMetrics metrics(&registry);
  SegmentIndex index(arena.get(), MakeEvictionPolicy(policy, kCapacity), 1024, &metrics);
  SeededRandom random(1);
  uint64_t live = 0;
  std::vector<uint64_t> length_of(kSteps);
  double lost = 0, most_lost = 0;
  for (int step = 0; step < kSteps; ++step) {
    // The newer, the likelier it is used.
    for (int i = 0; i < 2 && step > 0; ++i) {
      const uint64_t back = 1 + random.Next() % (1 + random.Next() % 2000);
      if (Entry* entry = index.Find(KeyOf(step - std::min<uint64_t>(back, step)))) {
        index.Touch(entry);
      }
    }
    Entry entry;
    entry.key = KeyOf(step);
    entry.name = std::hash<BlockKey>()(entry.key);
    entry.payload_length = length_of[step] = sizes->next(&random, step);
    std::optional<Extent> extent = index.Allocate(entry.payload_length);
    ASSERT_TRUE(extent);
    ASSERT_LE(arena->used(), kCapacity);
    entry.extent = *extent;
    entry.bytes = extent->length;
    entry.tokens = 64;
    index.Publish(std::move(entry));
    if (step < kWarmUp || step % 10 != 0) continue;
    live = 0;
    index.Visit(0, SIZE_MAX, [&](Entry* stored) { live += stored->payload_length; });
    const double now = 1 - static_cast<double>(live) / kCapacity;
    lost += now * 10 / (kSteps - kWarmUp);
    most_lost = std::max(most_lost, now);
  }
  RecordProperty("mean_loss_percent", std::to_string(100 * lost));
  RecordProperty("most_loss_percent", std::to_string(100 * most_lost));
  std::printf("%s/%s: loss %.1f %% on average, %.1f %% at most\n", std::string(policy).c_str(),
              sizes->name, 100 * lost, 100 * most_lost);
  EXPECT_LT(lost, kMostLost);
  // While one size gives way to another, for about one turnover of the memory, it may be more.
  if (sizes->name != std::string("changing")) EXPECT_LT(most_lost, kMostLost);
}

INSTANTIATE_TEST_SUITE_P(All, MemoryChurnTest,
                         ::testing::Combine(::testing::ValuesIn(EvictionPolicyNames()),
                                            ::testing::Values(&kSizes[0], &kSizes[1], &kSizes[2],
                                                              &kSizes[3])),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param)) + "_" +
                                  std::get<1>(info.param)->name;
                         });

// P7: not more than the cap at any time, by the engine's account and by the kernel's.
TEST(MemoryCapTest, IsNeverPassedUnderChurn) {
  constexpr uint64_t kCapacity = 16 * kMiB;
  EngineFixture f(kCapacity, {}, kDefaultEviction);
  SeededRandom random(2);
  for (uint64_t i = 0; i < 120; ++i) {
    ASSERT_EQ(f.Put(1, MakeSegment(i, 4 * kKiB + random.Next() % (2 * kMiB))), StatusCode::kOk);
    ASSERT_GT(f.arena->present_bytes(), 0u);
    ASSERT_LE(f.arena->present_bytes(), kCapacity);
    ASSERT_LE(f.arena->used(), kCapacity);
  }
  EXPECT_GT(f.metrics.evictions.value(), 80u);
}

}  // namespace
}  // namespace ember::kv::testing
