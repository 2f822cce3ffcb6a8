// An engine that holds equal blocks twice (A12): never is more promised than it holds, and nothing
// of what it stores is lost.
#include <gtest/gtest.h>

#include <algorithm>
#include <list>
#include <map>

#include "tests/unit/router_events/engine_model.h"
#include "tests/unit/router_events/event_feed_fixture.h"

namespace ember::router {
namespace {

using Tokens = EngineModel::Tokens;
constexpr uint32_t kCopyBlock = 4;  // tokens

// vLLM's block pool: equal blocks are kept as often as they are computed, each is told when it is
// stored and when it goes, and those that were used longest ago go first.
class CopyingPool {
 public:
  explicit CopyingPool(size_t capacity) : capacity_(capacity) {}

  // Requests of one moment: none finds what the others compute. `full`: what is found in the cache
  // is told of, too. The payload of the batch.
  std::string Run(const std::vector<Tokens>& prompts, bool full = false) {
    std::vector<std::string> events;
    std::vector<size_t> hits;
    std::vector<std::vector<uint64_t>> ends;  // copies that are free afterwards
    for (const Tokens& prompt : prompts) {
      const std::vector<uint64_t> hashes = engine_.HashesOf(prompt);
      // The last token is always computed, and its block with it.
      hits.push_back(std::min(Held(prompt) / kCopyBlock, (prompt.size() - 1) / kCopyBlock));
      std::vector<uint64_t>& mine = ends.emplace_back();
      for (size_t i = 0; i < hits.back(); ++i) {
        const auto copy = std::ranges::find(free_, hashes[i]);
        if (copy == free_.end()) continue;  // another request of this moment has it
        free_.erase(copy);
        mine.push_back(hashes[i]);
      }
      if (full && hits.back() > 0) events.push_back(Stored(prompt, 0, hits.back()));
    }
    for (size_t p = 0; p < prompts.size(); ++p) {
      const std::vector<uint64_t> hashes = engine_.HashesOf(prompts[p]);
      for (size_t i = hits[p]; i < hashes.size(); ++i) {
        if (size_ == capacity_) Evict(&events);
        ++size_;
        ++copies_[hashes[i]];
        ends[p].push_back(hashes[i]);
      }
      if (hits[p] < hashes.size()) events.push_back(Stored(prompts[p], hits[p], hashes.size()));
    }
    // Ends of chains go first.
    for (auto& mine : ends) free_.insert(free_.end(), mine.rbegin(), mine.rend());
    return engine_.Batch(events);
  }
  std::string EvictAll() {
    std::vector<std::string> events;
    while (size_ > 0) Evict(&events);
    return engine_.Batch(events);
  }
  size_t Held(const Tokens& prompt) const {
    size_t tokens = 0;
    for (const uint64_t hash : engine_.HashesOf(prompt)) {
      if (!copies_.contains(hash)) break;
      tokens += kCopyBlock;
    }
    return tokens;
  }

 private:
  std::string Stored(const Tokens& prompt, size_t from, size_t to) const {
    const std::vector<uint64_t> all = engine_.HashesOf(prompt);
    const auto at = [](const auto& list, size_t i) {
      return list.begin() + static_cast<ptrdiff_t>(i);
    };
    std::optional<uint64_t> parent;
    if (from > 0) parent = all[from - 1];
    return engine_.StoredEvent({at(all, from), at(all, to)}, parent,
                               {at(prompt, from * kCopyBlock), at(prompt, to * kCopyBlock)});
  }
  void Evict(std::vector<std::string>* events) {
    ASSERT_FALSE(free_.empty()) << "requests of one moment need more than there is";
    const uint64_t hash = free_.front();
    free_.pop_front();
    --size_;
    if (--copies_[hash] == 0) copies_.erase(hash);
    events->push_back(engine_.RemovedEvent({hash}));
  }

  const size_t capacity_;
  size_t size_ = 0;
  std::map<uint64_t, size_t> copies_;
  std::list<uint64_t> free_;  // oldest first, a copy each
  EngineModel engine_{{.block_size = kCopyBlock}};
};

class EventCopies : public EventFeedFixture {
 protected:
  static constexpr EventSourceId kSource = 1;
  EventCopies() {
    feed_.AddSource(kSource, {.id = "r", .model = "m", .holders = {holder_}}, 0);
    feed_.OnTrusted(kSource);
  }
  uint64_t Device(const Tokens& tokens) {
    TokenizedPrompt prompt;
    prompt.model = "m";
    prompt.tokens = tokens;
    const auto found = feed_.Match(prompt, EventFeed::Holders().set());
    return found.empty() ? 0 : found[0].device_tokens;
  }
  // Conversations that share a beginning and grow, each turn asked once or several times at once.
  Tokens Turn(int conversation, size_t tokens) const {
    Tokens prompt = PromptOf(0, 3 * kCopyBlock);
    const Tokens own = PromptOf(conversation, tokens);
    prompt.insert(prompt.end(), own.begin(), own.end());
    return prompt;
  }
  const HolderId holder_ = index_.AddHolder(HolderKind::kReplica);
};

TEST_F(EventCopies, WhatIsStoredNextTellsThatTheOtherCopyIsThere) {
  CopyingPool pool(20);
  const Tokens prompt = PromptOf(1, 5 * kCopyBlock);
  Tell(kSource, pool.Run({prompt, prompt}));
  Tell(kSource, pool.Run({PromptOf(2, 13 * kCopyBlock)}));  // evicts some of the first copy
  ASSERT_EQ(pool.Held(prompt), 20u);
  EXPECT_LT(Device(prompt), 20u) << "nobody knows";
  const Tokens next = PromptOf(1, 6 * kCopyBlock);
  Tell(kSource, pool.Run({next}));
  EXPECT_EQ(Device(next), 24u);
  EXPECT_TRUE(feed_.trusted(holder_));
  EXPECT_EQ(metrics_.orphans.value(), 0u);
  Tell(kSource, pool.EvictAll());
  EXPECT_EQ(index_.blocks_held(holder_), 0u);
}

TEST_F(EventCopies, NoMoreIsPromisedThanIsHeldAndNothingIsLost) {
  for (const bool full : {false, true}) {
    CopyingPool pool(60);
    SeededRandom random(3);
    uint64_t shorter = 0;
    for (int step = 0; step < 3000; ++step) {
      // Of whole blocks, so that something is stored each time.
      const Tokens prompt =
          Turn(1 + static_cast<int>(random.Next() % 6), kCopyBlock * (random.Next() % 15));
      Tell(kSource, pool.Run(std::vector<Tokens>(1 + random.Next() % 3, prompt), full));
      for (int other = 1; other <= 6; ++other) {
        const Tokens all = Turn(other, 60);
        ASSERT_LE(Device(all), pool.Held(all)) << step;
        if (Device(all) < pool.Held(all)) ++shorter;
      }
      ASSERT_EQ(Device(prompt), prompt.size()) << "it was just computed";
      ASSERT_TRUE(feed_.trusted(holder_)) << step;
    }
    EXPECT_EQ(metrics_.orphans.value(), 0u);
    EXPECT_GT(shorter, 0u) << "copies went";
    Tell(kSource, pool.EvictAll());
    EXPECT_EQ(index_.blocks_held(holder_), 0u);
  }
}

// However often it goes on: to follow it takes the loop's time.
TEST_F(EventCopies, AChainIsFollowedOnceAfterEachRemovalAndThatCountsAsWork) {
  constexpr size_t kBlocks = 4000;
  const EngineModel engine({.block_size = kCopyBlock});
  const Tokens all = PromptOf(1, (kBlocks + 4) * kCopyBlock);
  const std::vector<uint64_t> hashes = engine.HashesOf(all);
  const auto store = [&](size_t from, size_t to) {
    std::optional<uint64_t> parent;
    if (from > 0) parent = hashes[from - 1];
    const auto first = [&](const auto& list, size_t i) {
      return list.begin() + static_cast<ptrdiff_t>(i);
    };
    Tell(kSource, engine.Batch({engine.StoredEvent(
                      {first(hashes, from), first(hashes, to)}, parent,
                      {first(all, from * kCopyBlock), first(all, to * kCopyBlock)})}));
    return feed_.TakeFurtherWork();
  };
  EXPECT_EQ(store(0, kBlocks), 0u);
  EXPECT_EQ(store(0, kBlocks), 0u) << "nothing was removed";
  // Another chain's copies, of which nothing more is heard.
  const std::vector<uint64_t> other = engine.HashesOf(PromptOf(2, kCopyBlock));
  for (int i = 0; i < 2; ++i) {
    Tell(kSource, engine.Batch({engine.StoredEvent(other, {}, PromptOf(2, kCopyBlock))}));
  }
  Tell(kSource, engine.Batch({engine.RemovedEvent(other)}));
  for (size_t i = 0; i < 2; ++i) {
    Tell(kSource, engine.Batch({engine.RemovedEvent({hashes[10 + i]})}));
    const size_t end = kBlocks + 2 * i;
    EXPECT_GE(store(end, end + 1), kBlocks / 8);
    EXPECT_EQ(store(end + 1, end + 2), 0u);
    EXPECT_EQ(Device(all), (end + 2) * kCopyBlock);
  }
}

// What is remembered is bounded: the rest is short of what is held, and true.
TEST_F(EventCopies, MoreCopiesThanAreRemembered) {
  CopyingPool pool(100'000);
  for (int number = 1; number <= 100; ++number) {
    const Tokens prompt = PromptOf(number, 80 * kCopyBlock);
    Tell(kSource, pool.Run({prompt, prompt}));
  }
  Tell(kSource, pool.EvictAll());
  for (int number = 1; number <= 100; ++number) {
    Tell(kSource, pool.Run({PromptOf(number, 90 * kCopyBlock)}));
    EXPECT_EQ(Device(PromptOf(number, 90 * kCopyBlock)), 90u * kCopyBlock);
  }
}

}  // namespace
}  // namespace ember::router
