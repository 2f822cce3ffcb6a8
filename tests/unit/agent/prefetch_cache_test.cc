#include "client/agent/prefetch_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ember::agent {
namespace {

constexpr size_t kBytes = 1000;

class PrefetchCacheTest : public ::testing::Test {
 protected:
  // Segments of one chain.
  static std::vector<SegmentRef> Chain(uint8_t name, size_t count, uint8_t proof = 1) {
    std::vector<SegmentRef> out(count);
    for (size_t i = 0; i < count; ++i) {
      out[i].key.hash.bytes[0] = std::byte{name};
      out[i].key.hash.bytes[1] = static_cast<std::byte>(i);
      out[i].proof[0] = std::byte{proof};
    }
    return out;
  }
  // All of them received; false when there was no room for one.
  bool Receive(const std::vector<SegmentRef>& refs, TimePoint now = {}) {
    for (const SegmentRef& ref : refs) {
      const PrefetchCache::Segment segment = cache_.Add(ref, kBytes, now);
      if (segment == nullptr) return false;
      segment->ready = true;
    }
    return true;
  }
  size_t Held(const std::vector<SegmentRef>& refs) { return cache_.ReadyPrefix(refs); }

  MetricsRegistry registry_;
  AgentMetrics metrics_{registry_};
  PrefetchCache cache_{4 * kBytes, seconds(30), metrics_};
};

TEST_F(PrefetchCacheTest, TheLeastRecentlyAskedGoesFirstAndAChainsEndBeforeItsStart) {
  const auto a = Chain('a', 2), b = Chain('b', 2), c = Chain('c', 1), d = Chain('d', 2);
  ASSERT_TRUE(Receive(a) && Receive(b));
  EXPECT_EQ(cache_.Find(a).size(), 2u);
  ASSERT_TRUE(Receive(c));
  EXPECT_EQ(Held(a), 2u);
  EXPECT_EQ(Held(b), 0u) << "its first was received first and never asked for";
  (void)cache_.Find(b);
  (void)cache_.Find(a);
  ASSERT_TRUE(Receive(d));
  EXPECT_EQ(Held(a), 2u) << "b's rest and c went";
  EXPECT_EQ(Held(c), 0u);
  (void)cache_.Find(d);
  ASSERT_TRUE(Receive(c));
  EXPECT_EQ(Held(a), 1u) << "of what goes, the chain's end is first";
  EXPECT_EQ(cache_.bytes(), 4 * kBytes);
  EXPECT_EQ(metrics_.prefetch_wasted_bytes.value(), 4 * kBytes);
}

TEST_F(PrefetchCacheTest, WhatSomebodyHoldsStaysAndCounts) {
  const auto a = Chain('a', 3);
  ASSERT_TRUE(Receive(a));
  auto held = cache_.Find(a);
  EXPECT_TRUE(Receive(Chain('b', 1)));
  EXPECT_TRUE(Receive(Chain('c', 1))) << "b's room";
  const auto d = Chain('d', 2);
  const PrefetchCache::Segment under_way = cache_.Add(d[0], kBytes, TimePoint());
  EXPECT_EQ(cache_.Add(d[1], kBytes, TimePoint()), nullptr) << "all others are held";
  EXPECT_EQ(Held(a), 3u);
  cache_.Sweep(TimePoint() + seconds(31));
  EXPECT_EQ(cache_.bytes(), 4 * kBytes) << "only what nobody holds goes";
  cache_.Drop(std::vector{under_way});
  for (const auto& segment : held) segment->used = true;
  held.clear();
  const uint64_t wasted = metrics_.prefetch_wasted_bytes.value();
  cache_.Sweep(TimePoint() + seconds(31));
  EXPECT_EQ(cache_.bytes(), 0u);
  EXPECT_EQ(metrics_.prefetch_wasted_bytes.value(), wasted) << "used is not wasted";
}

TEST_F(PrefetchCacheTest, ADeadlineIsNotProlongedByUse) {
  const auto a = Chain('a', 1), b = Chain('b', 1);
  ASSERT_TRUE(Receive(a, TimePoint() + seconds(1)) && Receive(b, TimePoint() + seconds(2)));
  (void)cache_.Find(a);
  cache_.Sweep(TimePoint() + seconds(31));
  EXPECT_EQ(Held(a), 0u);
  EXPECT_EQ(Held(b), 1u);
}

TEST_F(PrefetchCacheTest, AnotherProofIsNotFoundAndDoesNotReplace) {
  ASSERT_TRUE(Receive(Chain('a', 1)));
  const auto collides = Chain('a', 1, 2);
  EXPECT_EQ(cache_.Find(collides)[0], nullptr);
  EXPECT_EQ(Held(collides), 0u);
  EXPECT_FALSE(Receive(collides));
  EXPECT_EQ(Held(Chain('a', 1)), 1u);
}

TEST_F(PrefetchCacheTest, OnlyTheVerySegmentIsDropped) {
  const auto a = Chain('a', 1);
  ASSERT_TRUE(Receive(a));
  auto first = cache_.Find(a);
  cache_.Drop(first);
  ASSERT_TRUE(Receive(a));
  cache_.Drop(first);
  cache_.Drop(std::vector<PrefetchCache::Segment>{nullptr});
  EXPECT_EQ(Held(a), 1u);
  EXPECT_EQ(cache_.bytes(), kBytes);
}

TEST_F(PrefetchCacheTest, WhatIsNotReadyEndsThePrefix) {
  const auto a = Chain('a', 3);
  ASSERT_TRUE(Receive(a));
  cache_.Find(a)[1]->ready = false;
  EXPECT_EQ(Held(a), 1u);
}

}  // namespace
}  // namespace ember::agent
