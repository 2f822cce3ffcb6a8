// The engine of tests/bench/replica, and what its agent would tell of its cache.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "proto/base/random.h"
#include "tests/bench/replica/engine.h"
#include "tests/bench/replica/held_slots.h"

namespace ember::bench {
namespace {

// A text of so many tokens; equal seeds give equal beginnings.
std::string Text(uint64_t seed, size_t tokens) {
  SeededRandom random(seed);
  std::string text;
  while (text.size() < tokens * 4) text.push_back(static_cast<char>('a' + random.Next() % 26));
  return text;
}

Engine::SharedPrompt PromptOf(const std::string& text) {
  auto prompt = std::make_shared<Prompt>();
  prompt->text = text;
  prompt->tokens = text.size() / 4;
  prompt->chain = ChainOf(text);
  return prompt;
}

sim::EngineShape Shape(double load) {
  return {.prefill = {.linear_ms = 0.1, .context_ms = 0, .base_ms = 2},
          .cache_blocks = 100,
          .load_tokens_per_ms = load};
}

TEST(BenchEngine, ComputesInTurnAndFindsWhatItHas) {
  sim::StoredBlocks store;
  Engine engine(Shape(0), &store);
  const auto prompt = PromptOf(Text(1, 1000));
  engine.Arrive(prompt, 0);
  engine.Arrive(prompt, 1);
  const auto first = engine.Next(0);
  ASSERT_TRUE(first);
  EXPECT_DOUBLE_EQ(first->end, 102);
  const auto second = engine.Next(first->end);
  ASSERT_TRUE(second);
  EXPECT_EQ(second->cached_tokens, 992u) << "whole blocks";
  EXPECT_DOUBLE_EQ(second->end, 102 + 2 + 0.8);
  EXPECT_FALSE(engine.Next(200));
}

TEST(BenchEngine, AHintedLoadOverlapsTheWaitingAndOthersPassWhoWaits) {
  sim::StoredBlocks store;
  Engine other(Shape(40), &store), engine(Shape(40), &store);
  const auto stored = PromptOf(Text(1, 800));
  const auto fresh = PromptOf(Text(2, 400));
  other.Keep(stored->chain);
  // Not hinted: its load begins when it is looked at, and the next one is computed meanwhile.
  engine.Arrive(stored, 0);
  engine.Arrive(fresh, 0);
  const auto passed = engine.Next(0);
  ASSERT_TRUE(passed);
  EXPECT_EQ(passed->prompt, fresh);
  EXPECT_DOUBLE_EQ(engine.NextReady(), 20);
  const auto loaded = engine.Next(passed->end);
  ASSERT_TRUE(loaded);
  EXPECT_EQ(loaded->loaded_tokens, 784u) << "its last block is computed";
  EXPECT_DOUBLE_EQ(loaded->end, passed->end + 2 + 1.6);
  engine.Clear();
  // Hinted: it is there when its turn comes.
  EXPECT_TRUE(engine.Hint(*stored, 800, 100));
  engine.Arrive(fresh, 100);
  engine.Arrive(stored, 101);
  ASSERT_TRUE(engine.Next(101));
  EXPECT_DOUBLE_EQ(engine.NextReady(), 101);
  EXPECT_EQ(engine.Next(142)->loaded_tokens, 784u);
}

TEST(HeldSlots, TellWhatTheCacheHolds) {
  sim::BlockCache cache(60);
  HeldSlots held;
  std::map<uint32_t, std::vector<BlockHash>> told;
  SeededRandom random(3);
  for (int i = 0; i < 300; ++i) {
    // Few beginnings, longer and shorter ones.
    const Chain chain = ChainOf(Text(random.Next() % 6, 16 * (1 + random.Next() % 25)));
    cache.Insert(chain.names);
    for (auto& [slot, blocks] : held.Update(cache, chain.hashes)) told[slot] = blocks;
    size_t longest = 0;
    std::set<BlockHash> blocks;
    for (const auto& [slot, content] : told) {
      blocks.insert(content.begin(), content.end());
      longest = std::max(longest, content.size());
      for (const BlockHash& hash : content) {
        const uint64_t name = std::hash<BlockHash>()(hash);
        EXPECT_EQ(cache.Match(std::span(&name, 1)), 1u);
      }
    }
    EXPECT_EQ(blocks.size(), cache.size());
    EXPECT_GE(longest, chain.hashes.size());
  }
  for (const auto& [slot, blocks] : held.Clear()) told[slot] = blocks;
  for (const auto& [slot, blocks] : told) EXPECT_TRUE(blocks.empty());
}

}  // namespace
}  // namespace ember::bench
