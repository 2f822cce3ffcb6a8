// The eviction policies against naive models of themselves.
#include "kvstore/engine/eviction_policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <list>
#include <map>
#include <set>

#include "proto/base/random.h"

namespace ember::kv {
namespace {

constexpr uint64_t kMemory = 1 << 30;

// A store of `capacity` segments of one size, driven by a policy.
class Cache {
 public:
  Cache(std::string_view policy, size_t capacity, uint32_t segments)
      : policy_(MakeEvictionPolicy(policy, kMemory)), capacity_(capacity), hooks_(segments) {
    SeededRandom random(99);
    for (EvictionHook& hook : hooks_) {
      hook.name = random.Next();
      hook.bytes = 1 << 20;
      hook.tokens = 64;
    }
  }
  EvictionHook& hook(uint32_t i) { return hooks_[i]; }
  EvictionPolicy& policy() { return *policy_; }
  bool has(uint32_t i) const { return hooks_[i].tracked; }
  void Use(uint32_t i) {
    if (has(i)) return policy_->Touch(&hooks_[i]);
    if (size_ == capacity_) {
      policy_->Evict(&hooks_[Victims().front()]);
      --size_;
    }
    hooks_[i].uses = hooks_[i].queue = 0;
    hooks_[i].last_use = 0;
    policy_->Add(&hooks_[i]);
    ++size_;
  }
  std::vector<uint32_t> Victims() {
    std::vector<uint32_t> order;
    policy_->VisitVictims([&](EvictionHook* hook) {
      order.push_back(static_cast<uint32_t>(hook - hooks_.data()));
      return true;
    });
    return order;
  }

 private:
  const std::unique_ptr<EvictionPolicy> policy_;
  const size_t capacity_;
  size_t size_ = 0;
  std::vector<EvictionHook> hooks_;
};

// Few are asked for often, many seldom.
uint32_t PickSkewed(SeededRandom* random, uint32_t n) {
  const double u = static_cast<double>(random->Next() % 100000) / 100000;
  return static_cast<uint32_t>(u * u * u * n);
}

TEST(LruPolicyTest, AgreesWithAList) {
  Cache cache("lru", 50, 300);
  std::list<uint32_t> newest_last;
  SeededRandom random(1);
  for (int step = 0; step < 5000; ++step) {
    const uint32_t i = PickSkewed(&random, 300);
    ASSERT_EQ(cache.has(i), std::ranges::find(newest_last, i) != newest_last.end());
    newest_last.remove(i);
    if (newest_last.size() == 50) newest_last.pop_front();
    newest_last.push_back(i);
    cache.Use(i);
  }
  EXPECT_THAT(cache.Victims(), ::testing::ElementsAreArray(newest_last));
}

// The algorithm as the paper's pseudocode has it, in the plainest form.
class NaiveS3Fifo {
 public:
  explicit NaiveS3Fifo(size_t capacity) : capacity_(capacity) {}
  bool has(uint32_t i) const { return uses_.contains(i); }
  void Use(uint32_t i) {
    if (has(i)) {
      uses_[i] = std::min(uses_[i] + 1, 3);
      return;
    }
    if (uses_.size() == capacity_) Evict();
    uses_[i] = 0;
    auto ghost = std::ranges::find(ghosts_, i);
    (ghost == ghosts_.end() ? small_ : main_).push_back(i);
    if (ghost != ghosts_.end()) ghosts_.erase(ghost);
  }

 private:
  bool SmallIsNext() const {
    return main_.empty() || (!small_.empty() && small_.size() * 10 >= uses_.size());
  }
  void Evict() {
    while (SmallIsNext()) {
      const uint32_t i = small_.front();
      small_.pop_front();
      if (uses_[i] > 1) {
        uses_[i] = 0;
        main_.push_back(i);
        continue;
      }
      uses_.erase(i);
      ghosts_.push_back(i);
      if (ghosts_.size() > capacity_ * 9 / 10) ghosts_.pop_front();
      return;
    }
    for (;;) {
      const uint32_t i = main_.front();
      main_.pop_front();
      if (uses_[i] == 0) {
        uses_.erase(i);
        return;
      }
      --uses_[i];
      main_.push_back(i);
    }
  }

  const size_t capacity_;
  std::map<uint32_t, int> uses_;
  std::deque<uint32_t> small_, main_, ghosts_;
};

// Not exactly: the ghost table counts those that were taken out of it, too.
TEST(S3FifoPolicyTest, HitsAsOftenAsTheNaiveForm) {
  Cache cache("s3fifo", 100, 2000);
  NaiveS3Fifo naive(100);
  SeededRandom random(2);
  int hits = 0, naive_hits = 0, differ = 0;
  for (int step = 0; step < 30000; ++step) {
    const uint32_t i = PickSkewed(&random, 2000);
    hits += cache.has(i);
    naive_hits += naive.has(i);
    differ += cache.has(i) != naive.has(i);
    cache.Use(i);
    naive.Use(i);
  }
  EXPECT_GT(naive_hits, 6000);
  EXPECT_NEAR(hits, naive_hits, naive_hits * 0.02);
  EXPECT_LT(differ, 1500);
}

TEST(S3FifoPolicyTest, AScanLeavesWhatIsUsedAlone) {
  Cache cache("s3fifo", 100, 2000);
  for (int round = 0; round < 5; ++round) {
    for (uint32_t i = 0; i < 50; ++i) cache.Use(i);
  }
  for (uint32_t i = 100; i < 2000; ++i) cache.Use(i);
  for (uint32_t i = 0; i < 50; ++i) EXPECT_TRUE(cache.has(i)) << i;
}

TEST(ChainPolicyTest, TailsGoBeforeHeads) {
  Cache cache("chain", 100, 100);
  for (uint32_t chain = 0; chain < 4; ++chain) {
    for (uint32_t i = 0; i < 10; ++i) {
      cache.hook(10 * chain + i).context = 64 * i;
      cache.Use(10 * chain + i);
    }
  }
  std::map<uint32_t, uint32_t> shortest;  // of each chain, what is left
  for (uint32_t victim : cache.Victims()) {
    auto [left, is_new] = shortest.try_emplace(victim / 10, 10);
    EXPECT_EQ(victim % 10, --left->second) << "a hole in chain " << victim / 10;
  }
}

TEST(ChainPolicyTest, WhatIsUsedAgainOutlivesWhatIsNot) {
  Cache cache("chain", 100, 1000);
  for (uint32_t i = 0; i < 100; ++i) cache.Use(i);
  for (uint32_t i = 0; i < 20; ++i) cache.Use(i);
  for (uint32_t i = 100; i < 220; ++i) cache.Use(i);  // a scan, longer than the memory
  for (uint32_t i = 0; i < 20; ++i) EXPECT_TRUE(cache.has(i)) << i;
  for (uint32_t i = 300; i < 900; ++i) cache.Use(i);  // but not for ever
  for (uint32_t i = 0; i < 20; ++i) EXPECT_FALSE(cache.has(i)) << i;
  // It is remembered how often they were used.
  for (uint32_t i = 0; i < 20; ++i) cache.Use(i);
  for (uint32_t i = 900; i < 1000; ++i) cache.Use(i);
  for (uint32_t i = 0; i < 20; ++i) EXPECT_TRUE(cache.has(i)) << i;
}

// A burst of ranged reads of one segment is one use.
TEST(ChainPolicyTest, ABurstCountsOnce) {
  Cache cache("chain", 1000, 2000);
  for (uint32_t i = 0; i < 1000; ++i) cache.Use(i);
  for (int i = 0; i < 10; ++i) cache.Use(0);
  EXPECT_LE(cache.hook(0).uses, 2);
}

TEST(ChainPolicyTest, WhatAWriterSaysOfItsTokensWeighsLittle) {
  Cache cache("chain", 100, 1000);
  for (uint32_t i = 0; i < 50; ++i) cache.hook(i).tokens = 4'000'000'000;
  cache.hook(50).tokens = 0;
  cache.hook(51).context = 4'000'000'000;
  for (uint32_t i = 0; i < 900; ++i) cache.Use(i);
  for (uint32_t i = 0; i < 52; ++i) EXPECT_FALSE(cache.has(i)) << i;
}

class EveryPolicyTest : public ::testing::TestWithParam<std::string_view> {};

// Whatever is used, pinned and dropped: the victims are just those that may be evicted, each once.
TEST_P(EveryPolicyTest, VisitsAllThatMayGoAndNothingElse) {
  constexpr uint32_t kSegments = 200;
  std::unique_ptr<EvictionPolicy> policy = MakeEvictionPolicy(GetParam(), kMemory);
  std::vector<EvictionHook> hooks(kSegments);
  std::set<const EvictionHook*> tracked;
  SeededRandom random(3);
  for (EvictionHook& hook : hooks) {
    hook.name = random.Next();
    hook.bytes = 4096 * (1 + random.Next() % 100);
    hook.tokens = 64;
    hook.context = static_cast<uint32_t>(random.Next() % 100000);
  }
  for (int step = 0; step < 5000; ++step) {
    EvictionHook* hook = &hooks[random.Next() % kSegments];
    const auto action = random.Next() % 4;
    if (!hook->tracked) {
      policy->Add(hook);
      tracked.insert(hook);
    } else if (action < 2) {
      policy->Touch(hook);
    } else {
      action == 2 ? policy->Remove(hook) : policy->Evict(hook);
      tracked.erase(hook);
    }
    if (step % 50 != 0) continue;
    std::vector<const EvictionHook*> seen;
    policy->VisitVictims([&](EvictionHook* victim) {
      seen.push_back(victim);
      return true;
    });
    EXPECT_THAT(seen, ::testing::UnorderedElementsAreArray(tracked));
  }
}

INSTANTIATE_TEST_SUITE_P(Policies, EveryPolicyTest, ::testing::ValuesIn(EvictionPolicyNames()),
                         [](const auto& info) { return std::string(info.param); });

TEST(EvictionPolicyTest, AreMadeByName) {
  EXPECT_THAT(EvictionPolicyNames(), ::testing::Contains(kDefaultEviction));
  EXPECT_EQ(MakeEvictionPolicy("mru", kMemory), nullptr);
}

}  // namespace
}  // namespace ember::kv
