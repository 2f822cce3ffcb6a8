// What is presumed of replicas that report nothing is what an engine would keep, and stays within
// the index's memory.
#include "router/index/presumed_caches.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/unit/router/index_fixture.h"
#include "tests/unit/support/sanitized.h"

namespace ember::router {
namespace {

BlockChain ChainOf(uint64_t name, size_t blocks) {
  BlockChain chain;
  for (size_t i = 0; i < blocks; ++i) chain.push_back(HashOfWords(name, i));
  return chain;
}

// The engine's own cache: least recently used blocks go, a chain's end before its start.
class EngineCache {
 public:
  explicit EngineCache(size_t capacity) : capacity_(capacity) {}
  // Blocks found from the start, before the prompt is computed.
  size_t Compute(const BlockChain& chain) {
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
  const BlockChain& held() const { return order_; }

 private:
  BlockChain::iterator InOrder(const BlockHash& hash) {
    return std::find(order_.begin(), order_.end(), hash);
  }
  const size_t capacity_;
  BlockChain order_;
};

class PresumedCachesTest : public testing::Test {
 protected:
  // Sends holder 0 the prompt.
  std::vector<PresumedCaches::Use> Send(const BlockChain& chain, size_t capacity) {
    return caches.Add(0, chain, capacity, Held(chain));
  }
  // How much of it the index knows at the holder.
  size_t Held(const BlockChain& chain, HolderId holder = 0) {
    return index.Lookup(chain).Of(holder).device_blocks;
  }
  bool Holds(const BlockHash& hash) { return Held({hash}) == 1; }

  PrefixIndex index{kRoomyIndex};
  PresumedCaches caches{index, 3};
  const HolderId first = index.AddHolder(HolderKind::kReplica);
};

TEST_F(PresumedCachesTest, AnEndGoesBeforeItsStartAndTheOldestFirst) {
  Send(ChainOf(1, 5), 8);
  Send(ChainOf(2, 5), 8);
  EXPECT_EQ(Held(ChainOf(1, 5)), 3u);
  EXPECT_EQ(Held(ChainOf(2, 5)), 5u);
  EXPECT_EQ(caches.blocks(0), 8u);
  // Used again, the first chain is the younger one.
  Send(ChainOf(1, 3), 8);
  Send(ChainOf(3, 5), 8);
  EXPECT_EQ(Held(ChainOf(2, 5)), 0u);
  EXPECT_EQ(Held(ChainOf(1, 5)), 3u);
  EXPECT_EQ(index.blocks_held(0), 8u);
}

TEST_F(PresumedCachesTest, WhatWasNotComputedIsTakenBackButNothingElse) {
  Send(ChainOf(1, 5), 100);
  BlockChain longer = ChainOf(1, 5);
  for (const BlockHash& hash : ChainOf(2, 5)) longer.push_back(hash);
  const auto before = Send(longer, 100);
  const uint32_t when = caches.now(0);
  const BlockChain also(longer.begin(), longer.begin() + 7);
  Send(also, 100);
  caches.TakeBack(0, longer, before, when);
  EXPECT_EQ(Held(longer), 7u) << "what others were sent before and since stays";
  EXPECT_EQ(caches.blocks(0), 7u);
  EXPECT_EQ(index.blocks_held(0), 7u);
  caches.TakeBack(0, longer, before, when);
  EXPECT_EQ(Held(longer), 7u);
  EXPECT_EQ(Send(ChainOf(3, 5), 100).size(), 1u) << "and goes on";
  BlockChain other = ChainOf(3, 5);
  for (const BlockHash& hash : ChainOf(4, 5)) other.push_back(hash);
  const auto again = Send(other, 100);
  caches.TakeBack(0, other, again, caches.now(0));
  EXPECT_EQ(Held(other), 5u) << "which was there before, though it was used for this one, too";
}

TEST_F(PresumedCachesTest, IsTheEnginesCacheWhenTheCapacityIsKnown) {
  std::mt19937_64 random(7);
  EngineCache engine(200);
  for (int i = 0; i < 2000; ++i) {
    const BlockChain chain = ChainOf(random() % 40, 1 + random() % 30);
    engine.Compute(chain);
    Send(chain, 200);
    ASSERT_EQ(index.blocks_held(0), engine.held().size()) << i;
    for (const BlockHash& hash : engine.held()) ASSERT_TRUE(Holds(hash)) << i;
  }
}

TEST_F(PresumedCachesTest, RepliesTeachAnUnknownCapacity) {
  std::mt19937_64 random(11);
  EngineCache engine(300);
  size_t wrong = 0, late_wrong = 0;
  for (int i = 0; i < 3000; ++i) {
    const BlockChain chain = ChainOf(random() % 60, 20);
    const size_t predicted = Held(chain);
    const size_t found = engine.Compute(chain);
    const auto before = Send(chain, 0);
    if (found >= predicted) continue;
    ++wrong;
    late_wrong += i >= 1500 ? 1 : 0;
    caches.Contradict(0, before, found);
  }
  EXPECT_GT(wrong, 0u);
  EXPECT_LT(late_wrong, 150u) << "of 1,500 prompts";
  EXPECT_NEAR(static_cast<double>(caches.capacity(0)), 300, 80);
}

TEST_F(PresumedCachesTest, AnEngineThatForgotEverythingIsBelievedAtOnce) {
  for (uint64_t name = 0; name < 10; ++name) Send(ChainOf(name, 10), 0);
  const auto before = Send(ChainOf(9, 10), 0);
  caches.Contradict(0, before, 0);
  EXPECT_EQ(index.blocks_held(0), 10u) << "the prompt just computed";
  EXPECT_EQ(Held(ChainOf(9, 10)), 10u);
}

TEST_F(PresumedCachesTest, AChainLongerThanTheCacheLeavesItsStart) {
  Send(ChainOf(1, 9), 4);
  EXPECT_EQ(Held(ChainOf(1, 9)), 4u);
  EXPECT_EQ(caches.blocks(0), 4u);
}

TEST_F(PresumedCachesTest, AReplyThatComesAfterAllWasForgottenSaysNothingOfWhatIsNew) {
  Send(ChainOf(1, 10), 0);
  const auto before = Send(ChainOf(1, 10), 0);
  caches.Clear(0);
  EXPECT_EQ(index.blocks_held(0), 0u);
  Send(ChainOf(2, 10), 0);
  caches.Contradict(0, before, 0);
  EXPECT_EQ(Held(ChainOf(2, 10)), 10u);
  Send(ChainOf(3, 200), 0);
  EXPECT_EQ(Held(ChainOf(3, 200)), 200u);
}

// D21, of replicas that report nothing: unique prompts to many of them.
TEST(PresumedCachesBounds, TheIndexsCapHoldsAtEveryMomentAndEachReplicaHasAShare) {
  for (const bool crowded : {false, true}) {
    PrefixIndex index(kSmallIndex);
    PresumedCaches caches(index, 3);
    constexpr HolderId kReplicas = 8;
    AddReplicas(index, kReplicas);
    const HolderId events = index.AddHolder(HolderKind::kReplica);
    // Engines' events may have filled the memory before.
    for (uint64_t n = 0; crowded && n < 500; ++n) StoreChain(index, events, NumberedChain(n, 100));
    const size_t before = index.bytes();
    constexpr uint64_t kPrompts = EMBER_TEST_SANITIZED ? 400 : 4000;
    for (uint64_t n = 0; n < kPrompts; ++n) {
      const auto holder = static_cast<HolderId>(n % kReplicas);
      const BlockChain chain = ChainOf(1000 + n, 60);
      caches.Add(holder, chain, 0, 0);
      ASSERT_LE(index.bytes(), kSmallIndex.max_bytes) << n;
      ASSERT_EQ(index.Lookup(chain).Of(holder).device_blocks, 60u) << n;
    }
    EXPECT_GT(index.bytes(), before) << "what is presumed is counted";
    size_t all = 0;
    for (HolderId h = 0; h < kReplicas; ++h) {
      all += caches.blocks(h);
      EXPECT_GE(caches.blocks(h), crowded ? 40u : 400u) << h;
    }
    EXPECT_GT(all, crowded ? 600u : 4000u);
    // A chain that is larger than all that there is: its start stays.
    const BlockChain huge = ChainOf(1, 16'000);
    caches.Add(0, huge, 0, 0);
    EXPECT_LE(index.bytes(), kSmallIndex.max_bytes);
    EXPECT_EQ(caches.blocks(0), index.Lookup(huge).Of(0).device_blocks);
    for (HolderId h = 0; h < kReplicas; ++h) caches.Clear(h);
    for (HolderId h = 0; h < kReplicas; ++h) EXPECT_EQ(index.blocks_held(h), 0u);
  }
}

// What engines of many dialects call the same blocks may take all that is left, but for this.
TEST(PresumedCachesBounds, ASixteenthIsLeftByTheNamesOfEngines) {
  PrefixIndex index(kSmallIndex);
  PresumedCaches caches(index, 3);
  AddReplicas(index, 12);
  for (uint64_t n = 0; n < 300; ++n) StoreChain(index, 1, NumberedChain(n, 100));
  EXPECT_GT(index.evictions(), 0u) << "memory is out";
  for (uint64_t n = 270; n < 300; ++n) {
    for (HolderId h = 2; h < 12; ++h) {
      StoreChain(index, h, NumberedChain(n, 100), HolderTier::kDevice, h);
    }
  }
  EXPECT_GT(index.refusals(), 0u) << "even for names";
  const BlockChain chain = ChainOf(1, 700);
  caches.Add(0, chain, 0, 0);
  EXPECT_EQ(caches.blocks(0), 700u);
  EXPECT_LE(index.bytes(), kSmallIndex.max_bytes);
}

}  // namespace
}  // namespace ember::router
