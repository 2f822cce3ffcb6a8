#include "router/index/presumed_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <set>

namespace ember::router {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAreArray;

std::vector<BlockHash> ChainOf(uint64_t name, size_t blocks, size_t from = 0) {
  std::vector<BlockHash> chain(blocks);
  for (size_t i = 0; i < blocks; ++i) {
    const uint64_t words[2] = {name, from + i};
    std::memcpy(chain[i].bytes.data(), words, sizeof words);
  }
  return chain;
}

// The engine's own cache: least recently used blocks go, a chain's end before its start.
class EngineCache {
 public:
  explicit EngineCache(size_t capacity) : capacity_(capacity) {}
  // Blocks found from the start, before the prompt is computed.
  size_t Compute(const std::vector<BlockHash>& chain) {
    size_t found = 0;
    while (found < chain.size() && InOrder(chain[found]) != order_.end()) ++found;
    for (size_t i = chain.size(); i-- > 0;) {
      const auto at = InOrder(chain[i]);
      if (at != order_.end()) order_.erase(at);
      order_.insert(order_.begin(), chain[i]);
    }
    if (order_.size() > capacity_) order_.resize(capacity_);
    return found;
  }
  const std::vector<BlockHash>& held() const { return order_; }

 private:
  std::vector<BlockHash>::iterator InOrder(const BlockHash& hash) {
    return std::find(order_.begin(), order_.end(), hash);
  }
  const size_t capacity_;
  std::vector<BlockHash> order_;
};

TEST(PresumedCache, AnEndGoesBeforeItsStartAndTheOldestFirst) {
  PresumedCache cache(8);
  EXPECT_THAT(cache.Add(ChainOf(1, 5)).held, SizeIs(5));
  const auto change = cache.Add(ChainOf(2, 5));
  EXPECT_THAT(change.gone, UnorderedElementsAreArray(ChainOf(1, 2, 3)));
  EXPECT_EQ(cache.blocks(), 8u);
  // Used again, the first chain is the younger one.
  EXPECT_THAT(cache.Add(ChainOf(1, 3)).held, IsEmpty());
  EXPECT_THAT(cache.Add(ChainOf(3, 5)).gone, UnorderedElementsAreArray(ChainOf(2, 5)));
}

TEST(PresumedCache, IsTheEnginesCacheWhenTheCapacityIsKnown) {
  std::mt19937_64 random(7);
  PresumedCache cache(200);
  EngineCache engine(200);
  std::set<BlockHash> held;
  for (int i = 0; i < 2000; ++i) {
    const auto chain = ChainOf(random() % 40, 1 + random() % 30);
    engine.Compute(chain);
    const auto change = cache.Add(chain);
    held.insert(change.held.begin(), change.held.end());
    for (const BlockHash& hash : change.gone) EXPECT_EQ(held.erase(hash), 1u);
    ASSERT_THAT(held, UnorderedElementsAreArray(engine.held())) << i;
  }
}

TEST(PresumedCache, RepliesTeachAnUnknownCapacity) {
  std::mt19937_64 random(11);
  PresumedCache cache;
  EngineCache engine(300);
  std::set<BlockHash> held;
  size_t wrong = 0, late_wrong = 0;
  for (int i = 0; i < 3000; ++i) {
    const auto chain = ChainOf(random() % 60, 20);
    size_t predicted = 0;
    while (predicted < chain.size() && held.contains(chain[predicted])) ++predicted;
    const size_t found = engine.Compute(chain);
    const auto change = cache.Add(chain);
    held.insert(change.held.begin(), change.held.end());
    for (const BlockHash& hash : change.gone) held.erase(hash);
    if (found >= predicted) continue;
    ++wrong;
    late_wrong += i >= 1500 ? 1 : 0;
    for (const BlockHash& hash : cache.Contradict(change.before, found)) held.erase(hash);
  }
  EXPECT_GT(wrong, 0u);
  EXPECT_LT(late_wrong, 150u) << "of 1,500 prompts";
  EXPECT_NEAR(static_cast<double>(cache.capacity()), 300, 80);
}

TEST(PresumedCache, AnEngineThatForgotEverythingIsBelievedAtOnce) {
  PresumedCache cache;
  for (uint64_t name = 0; name < 10; ++name) cache.Add(ChainOf(name, 10));
  const auto change = cache.Add(ChainOf(9, 10));
  EXPECT_THAT(cache.Contradict(change.before, 0), SizeIs(90));
  EXPECT_EQ(cache.blocks(), 10u);  // the prompt just computed
}

TEST(PresumedCache, AChainLongerThanTheCacheLeavesItsStart) {
  PresumedCache cache(4);
  EXPECT_THAT(cache.Add(ChainOf(1, 9)).held, UnorderedElementsAreArray(ChainOf(1, 4)));
  EXPECT_EQ(cache.blocks(), 4u);
}

}  // namespace
}  // namespace ember::router
