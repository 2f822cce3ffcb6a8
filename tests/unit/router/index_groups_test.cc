// Prefixes of models with several cache groups.
#include <gtest/gtest.h>

#include <set>

#include "tests/unit/router/index_fixture.h"

namespace ember::router {
namespace {

GroupMatch Of(const std::vector<GroupMatch>& found, HolderId holder) {
  for (const GroupMatch& match : found) {
    if (match.holder == holder) return match;
  }
  return {.holder = holder};
}

TEST(IndexGroups, EveryGroupIsNeeded) {  // A13
  PrefixIndex index(kRoomyIndex);
  AddReplicas(index, 2);
  const BlockChain full = NumberedChain(1, 10);
  const BlockChain window = NumberedChain(2, 10);
  const GroupChain groups[] = {{full, 16, 0}, {window, 16, 32}};
  StoreChain(index, 0, full);
  EXPECT_EQ(Of(index.LookupGroups(groups), 0).device_tokens, 0u);
  StoreChain(index, 0, window);
  EXPECT_EQ(Of(index.LookupGroups(groups), 0).device_tokens, 160u);
  // The window group keeps only the blocks of the window.
  RemoveChain(index, 0, BlockChain(window.begin(), window.begin() + 8));
  EXPECT_EQ(Of(index.LookupGroups(groups), 0).device_tokens, 160u);
  RemoveChain(index, 0, {window[8]});
  EXPECT_EQ(Of(index.LookupGroups(groups), 0).device_tokens, 0u);
  StoreChain(index, 0, {window[8], window[7]}, HolderTier::kHost);
  EXPECT_EQ(Of(index.LookupGroups(groups), 0).device_tokens, 0u);
  EXPECT_EQ(Of(index.LookupGroups(groups), 0).any_tier_tokens, 160u);
  RemoveChain(index, 0, {full[9]});
  EXPECT_EQ(Of(index.LookupGroups(groups), 0).any_tier_tokens, 144u);
  EXPECT_EQ(index.LookupGroups(groups).size(), 1u);
  EXPECT_TRUE(index.LookupGroups({}).empty());
}

// As vLLM counts: the blocks of all tokens of the window but the next one itself.
TEST(IndexGroups, AWindowNeedsTheBlocksBeforeTheNextToken) {  // A13
  const BlockChain chain = NumberedChain(1, 10);
  for (uint32_t window = 2; window < 140; ++window) {
    const GroupChain group[] = {{chain, 16, window}};
    const size_t needed = (window - 1 + 15) / 16;
    PrefixIndex index(kRoomyIndex);
    AddReplicas(index, 1);
    StoreChain(index, 0, BlockChain(chain.end() - static_cast<ptrdiff_t>(needed), chain.end()));
    EXPECT_EQ(Of(index.LookupGroups(group), 0).device_tokens, 160u) << window;
    RemoveChain(index, 0, {chain[10 - needed]});
    EXPECT_EQ(Of(index.LookupGroups(group), 0).device_tokens, 0u) << window;
  }
}

TEST(IndexGroups, AShortPrefixNeedsNoWholeWindow) {
  PrefixIndex index(kRoomyIndex);
  AddReplicas(index, 1);
  const BlockChain chain = NumberedChain(1, 10);
  const GroupChain group[] = {{chain, 16, 64}};
  StoreChain(index, 0, BlockChain(chain.begin(), chain.begin() + 2));
  EXPECT_EQ(Of(index.LookupGroups(group), 0).device_tokens, 32u);
  StoreChain(index, 0, BlockChain(chain.begin() + 6, chain.end()));
  EXPECT_EQ(Of(index.LookupGroups(group), 0).device_tokens, 160u);
  RemoveChain(index, 0, {chain[6]});
  EXPECT_EQ(Of(index.LookupGroups(group), 0).device_tokens, 32u);
}

// By trying every length.
uint64_t LongestByTrying(std::span<const GroupChain> groups,
                         std::span<const std::set<BlockHash>> held) {
  uint64_t most = UINT64_MAX;
  for (const GroupChain& g : groups) {
    most = std::min<uint64_t>(most, g.chain.size() * g.tokens_per_block);
  }
  for (uint64_t tokens = most; tokens > 0; --tokens) {
    bool all = true;
    for (size_t g = 0; g < groups.size(); ++g) {
      const GroupChain& group = groups[g];
      all = all && tokens % group.tokens_per_block == 0;
      for (uint64_t token = 0; all && token < tokens; ++token) {
        const bool needed = group.window_tokens == 0 || token + group.window_tokens > tokens;
        all = !needed || held[g].contains(group.chain[token / group.tokens_per_block]);
      }
    }
    if (all) return tokens;
  }
  return 0;
}

TEST(IndexGroups, AgreeWithTheOracle) {
  SeededRandom random(3);
  for (int round = 0; round < 400; ++round) {
    PrefixIndex index(kRoomyIndex);
    AddReplicas(index, 2);
    std::vector<BlockChain> chains(1 + random.Next() % 3);
    std::vector<GroupChain> groups;
    std::vector<std::set<BlockHash>> held(chains.size());
    for (size_t g = 0; g < chains.size(); ++g) {
      const uint32_t tokens_per_block = 2u << random.Next() % 3;
      chains[g] = NumberedChain(10 + g, 40 / tokens_per_block + random.Next() % 3);
      const auto window = static_cast<uint32_t>(random.Next() % 4 * 5);
      groups.push_back({chains[g], tokens_per_block, window});
      for (size_t i = 0; i < chains[g].size(); ++i) {
        const bool second = random.Next() % 2 == 0;
        if (second) StoreChain(index, 1, {chains[g][i]});
        if (random.Next() % 8 == 0) continue;
        StoreChain(index, 0, {chains[g][i]});
        held[g].insert(chains[g][i]);
      }
    }
    ASSERT_EQ(Of(index.LookupGroups(groups), 0).device_tokens, LongestByTrying(groups, held))
        << "round " << round;
  }
}

}  // namespace
}  // namespace ember::router
