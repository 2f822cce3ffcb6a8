#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "tests/unit/router/index_fixture.h"

namespace ember::router {
namespace {

// The chain that spells `text`: block i's hash stands for the first i + 1 letters.
BlockChain Chain(const std::string& text) {
  BlockChain chain;
  for (size_t i = 0; i < text.size(); ++i) {
    BlockHash h;
    const size_t hash = std::hash<std::string>()(text.substr(0, i + 1));
    std::memcpy(h.bytes.data(), &hash, sizeof hash);
    h.bytes[8] = static_cast<std::byte>(i);
    chain.push_back(h);
  }
  return chain;
}

TEST(PrefixIndex, FindsTheLongestPrefixOfEachHolder) {
  PrefixIndex index(kRoomyIndex);
  AddReplicas(index, 5);
  index.Reset(1, {{0, Chain("abcd")}});
  index.Reset(2, {{0, Chain("abxy")}, {1, Chain("abc")}});
  const PrefixLookup found = index.Lookup(Chain("abcdef"));
  EXPECT_EQ(found.Of(1).device_blocks, 4u);
  EXPECT_EQ(found.Of(2).device_blocks, 3u);
  EXPECT_EQ(found.Of(0).device_blocks, 0u);
  EXPECT_EQ(found.store_blocks, 4u);
}

TEST(PrefixIndex, OnlyAnUnbrokenPrefixFromTheStartCounts) {  // A19
  PrefixIndex index(kRoomyIndex);
  AddReplicas(index, 5);
  index.Reset(1, {{0, Chain("A")}});
  index.Reset(2, {{0, Chain("B")}});
  // "BA" shares no block with "A": the chain contains what stands before.
  PrefixLookup found = index.Lookup(Chain("BA"));
  EXPECT_EQ(found.Of(1).device_blocks, 0u);
  EXPECT_EQ(found.Of(2).device_blocks, 1u);
  // Even when a holder has a later block of the very chain, a hole before it ends the match.
  const BlockChain abc = Chain("abc");
  index.Reset(3, {{0, {abc[0], abc[2]}}});
  EXPECT_EQ(index.Lookup(abc).Of(3).device_blocks, 1u);
  index.Reset(4, {{0, abc}});  // another holder without a hole keeps the walk going
  EXPECT_EQ(index.Lookup(abc).Of(3).device_blocks, 1u);
  EXPECT_EQ(index.Lookup(abc).Of(4).device_blocks, 3u);
}

TEST(PrefixIndex, AChainGoesOnWhereAnybodyHoldsWhatFollows) {
  PrefixIndex index(kRoomyIndex);
  AddReplicas(index, 5);
  const BlockChain abcd = Chain("abcd");
  index.Reset(1, {{0, abcd}});
  EXPECT_TRUE(index.GoesOn(abcd[1]));
  EXPECT_FALSE(index.GoesOn(abcd[3]));
  EXPECT_FALSE(index.GoesOn(Chain("x")[0])) << "unknown";
  index.SetHeld(1, {0, Chain("ab")});
  index.ForgetStored(abcd, 2);
  EXPECT_FALSE(index.GoesOn(abcd[1])) << "what followed is gone";
}

TEST(PrefixIndex, ASlotsNewContentReplacesTheOldButNotWhatAnotherSlotShares) {
  PrefixIndex index(kRoomyIndex);
  AddReplicas(index, 5);
  index.Reset(1, {{0, Chain("abcd")}, {1, Chain("abxy")}});
  index.SetHeld(1, {0, Chain("zz")});
  EXPECT_EQ(index.Lookup(Chain("abcd")).Of(1).device_blocks, 2u);
  EXPECT_EQ(index.Lookup(Chain("abxy")).Of(1).device_blocks, 4u);
  EXPECT_EQ(index.blocks_held(1), 6u);
  index.SetHeld(1, {1, {}});
  EXPECT_EQ(index.Lookup(Chain("abxy")).Of(1).device_blocks, 0u);
  EXPECT_EQ(index.Lookup(Chain("abxy")).store_blocks, 4u) << "the store is presumed to keep it";
}

TEST(PrefixIndex, AReplicasEntriesGoWhenItGoes) {
  PrefixIndex index(kRoomyIndex);
  AddReplicas(index, 5);
  index.Reset(1, {{0, Chain("abcd")}});
  index.Presume(1, Chain("qr"));
  index.ClearHolder(1);
  EXPECT_EQ(index.blocks_held(1), 0u);
  EXPECT_EQ(index.Lookup(Chain("abcd")).Of(1).device_blocks, 0u);
  EXPECT_EQ(index.Lookup(Chain("abcd")).store_blocks, 4u);
  EXPECT_EQ(index.blocks(), 4u) << "what was only presumed is gone altogether";
}

TEST(PrefixIndex, ADecisionIsPresumedHeldUntilTheReplicaReports) {
  PrefixIndex index(kRoomyIndex);
  AddReplicas(index, 5);
  index.Reset(1, {});
  const auto p = index.Presume(1, Chain("abcd"));
  EXPECT_EQ(index.Lookup(Chain("abcd")).Of(1).device_blocks, 4u);
  EXPECT_EQ(index.Lookup(Chain("abcd")).store_blocks, 0u);
  index.SetHeld(1, {0, Chain("zz")});  // a report while the request runs: still to come
  EXPECT_EQ(index.Lookup(Chain("abcd")).Of(1).device_blocks, 4u);
  index.Settle(1, p);
  EXPECT_EQ(index.Lookup(Chain("abcd")).Of(1).device_blocks, 4u);
  index.SetHeld(1, {0, Chain("ab")});  // the report after it: only this much stayed
  EXPECT_EQ(index.Lookup(Chain("abcd")).Of(1).device_blocks, 2u);
}

TEST(PrefixIndex, WhatTheStoreLackedIsForgottenUntilItIsReportedAgain) {
  PrefixIndex index(kRoomyIndex);
  AddReplicas(index, 5);
  index.Reset(1, {{0, Chain("abcd")}});
  index.ForgetStored(Chain("abcd"), 2);
  EXPECT_EQ(index.Lookup(Chain("abcd")).store_blocks, 2u);
  EXPECT_EQ(index.Lookup(Chain("abcd")).Of(1).device_blocks, 4u) << "its holder still has it";
  index.SetHeld(1, {1, Chain("abcx")});
  EXPECT_EQ(index.Lookup(Chain("abcx")).store_blocks, 4u);
  index.ClearHolder(1);
  index.ForgetStored(Chain("abcx"), 0);
  EXPECT_EQ(index.blocks(), 0u);
}

TEST(PrefixIndex, PresumptionsOfAReplicaThatNeverReportsAreBounded) {
  PrefixIndex index(kRoomyIndex);
  AddReplicas(index, 5);
  for (int i = 0; i < 5000; ++i) index.Presume(3, Chain("p" + std::to_string(i)));
  EXPECT_LE(index.blocks(), 256u * 5);
}

TEST(PrefixIndex, NonsenseIsHarmless) {
  PrefixIndex index(kRoomyIndex);
  AddReplicas(index, 6);
  index.SetHeld(1, {0, Chain("abc")});  // before any snapshot
  EXPECT_EQ(index.blocks(), 0u);
  index.Settle(1, 77);
  index.ClearHolder(5);
  EXPECT_EQ(index.Lookup({}).store_blocks, 0u);
  const BlockChain a = Chain("a");
  index.Reset(1, {{0, {a[0], a[0], a[0]}}, {0, Chain("b")}});  // repeats, one slot twice
  EXPECT_EQ(index.blocks_held(1), 1u);
  index.ClearHolder(1);
  EXPECT_EQ(index.blocks_held(1), 0u);
}

// Says the same by brute force.
class Oracle {
 public:
  struct Guess {
    PrefixIndex::Presumption id;
    BlockChain chain;
    bool settled;
  };
  struct Holder {
    bool known = false;
    std::map<uint32_t, BlockChain> slots;
    std::vector<Guess> guesses;
  };
  void Report(uint32_t r, uint32_t slot, const BlockChain& chain) {
    if (!holders[r].known) return;
    holders[r].slots[slot] = chain;
    for (const BlockHash& h : chain) store.insert(h);
    std::erase_if(holders[r].guesses, [](const Guess& g) { return g.settled; });
  }
  static uint32_t Common(const BlockChain& a, const BlockChain& b) {
    uint32_t n = 0;
    while (n < a.size() && n < b.size() && a[n] == b[n]) ++n;
    return n;
  }
  uint32_t Longest(uint32_t r, const BlockChain& chain) const {
    uint32_t longest = 0;
    for (const auto& [slot, held] : holders[r].slots)
      longest = std::max(longest, Common(held, chain));
    for (const Guess& g : holders[r].guesses) longest = std::max(longest, Common(g.chain, chain));
    return longest;
  }
  uint32_t Stored(const BlockChain& chain) const {
    uint32_t n = 0;
    while (n < chain.size() && store.count(chain[n]) > 0) ++n;
    return n;
  }
  std::array<Holder, 4> holders;
  std::set<BlockHash> store;
};

BlockChain RandomChain(SeededRandom& random) {
  std::string text;
  for (uint64_t n = random.Next() % 9; n > 0; --n)
    text += static_cast<char>('a' + random.Next() % 2);
  return Chain(text);
}

TEST(PrefixIndex, AgreesWithTheOracleOnRandomHistories) {
  for (uint64_t seed = 0; seed < 30; ++seed) {
    SeededRandom random(seed);
    PrefixIndex index(kRoomyIndex);
    AddReplicas(index, 4);
    Oracle oracle;
    for (int step = 0; step < 600; ++step) {
      const auto r = static_cast<uint32_t>(random.Next() % 4);
      Oracle::Holder& holder = oracle.holders[r];
      switch (random.Next() % 12) {
        case 0:
          index.Reset(r, {});
          holder = {.known = true};
          break;
        case 1:
          index.ClearHolder(r);
          holder = {};
          break;
        case 2:
        case 3:
        case 4:
        case 5: {
          const auto slot = static_cast<uint32_t>(random.Next() % 3);
          const BlockChain chain = RandomChain(random);
          index.SetHeld(r, {slot, chain});
          oracle.Report(r, slot, chain);
          break;
        }
        case 6:
        case 7:
        case 8: {
          const BlockChain chain = RandomChain(random);
          holder.guesses.push_back({index.Presume(r, chain), chain, false});
          break;
        }
        case 9:
        case 10:
          if (!holder.guesses.empty()) {
            Oracle::Guess& g = holder.guesses[random.Next() % holder.guesses.size()];
            g.settled = true;
            index.Settle(r, g.id);
          }
          break;
        default:
          break;
      }
      const BlockChain asked = RandomChain(random);
      const PrefixLookup found = index.Lookup(asked);
      for (uint32_t i = 0; i < 4; ++i) {
        ASSERT_EQ(found.Of(i).device_blocks, oracle.Longest(i, asked))
            << "seed " << seed << " step " << step;
      }
      ASSERT_EQ(found.store_blocks, oracle.Stored(asked)) << "seed " << seed << " step " << step;
    }
  }
}

TEST(PrefixIndex, UnderACapItNeverClaimsMoreThanTheOracleAndItsCountsStayTrue) {
  SeededRandom random(11);
  PrefixIndex index(kSmallIndex);
  AddReplicas(index, 4);
  std::map<std::pair<uint32_t, uint32_t>, BlockChain> slots;
  for (uint32_t r = 0; r < 4; ++r) index.Reset(r, {});
  for (int step = 0; step < 3000; ++step) {
    const auto r = static_cast<uint32_t>(random.Next() % 4);
    const auto slot = static_cast<uint32_t>(random.Next() % 3);
    // A few trees of prompts: one trunk each, and branches of their own.
    const BlockChain chain =
        Branch(NumberedChain(random.Next() % 5, 100), random.Next() % 200, random.Next() % 400);
    index.SetHeld(static_cast<HolderId>(r), {slot, chain});
    slots[{r, slot}] = chain;
    const PrefixLookup found = index.Lookup(chain);
    for (uint32_t i = 0; i < 4; ++i) {
      uint32_t longest = 0;
      for (uint32_t k = 0; k < 3; ++k)
        longest = std::max(longest, Oracle::Common(slots[{i, k}], chain));
      ASSERT_LE(found.Of(static_cast<HolderId>(i)).device_blocks, longest);
    }
    ASSERT_LE(index.bytes(), 1u << 20);
  }
  EXPECT_GT(index.evictions(), 0u);
  for (uint32_t r = 0; r < 4; ++r) index.ClearHolder(static_cast<HolderId>(r));
  for (uint32_t r = 0; r < 4; ++r) EXPECT_EQ(index.blocks_held(static_cast<HolderId>(r)), 0u);
}

TEST(PrefixIndex, StoringAgainIsCountedAndHolesAreFound) {
  PrefixIndex index(kRoomyIndex);
  AddReplicas(index, 2);
  const BlockChain chain = NumberedChain(1, 6);
  const std::vector<EngineKey> keys = KeysOf(chain);
  const auto store = [&](HolderId holder, HolderTier tier) {
    return index.Store(holder, tier, std::nullopt, keys, chain);
  };
  EXPECT_EQ(store(0, HolderTier::kDevice), 0u);
  EXPECT_EQ(store(1, HolderTier::kDevice), 0u) << "another's";
  EXPECT_EQ(store(0, HolderTier::kHost), 0u) << "another tier";
  EXPECT_EQ(store(0, HolderTier::kDevice), 6u);
  index.Remove(0, HolderTier::kDevice, std::array{keys[1], keys[3], keys[5]});
  size_t steps = 0;
  EXPECT_EQ(index.MissingBefore(0, HolderTier::kDevice, keys[4], &steps),
            (std::vector{chain[3], chain[1]}));
  EXPECT_EQ(steps, 5u) << "to the chain's start";
  EXPECT_TRUE(index.MissingBefore(0, HolderTier::kHost, keys[4], &steps).empty());
  EXPECT_TRUE(index.MissingBefore(1, HolderTier::kDevice, keys[4], &steps).empty());
  EXPECT_TRUE(index.MissingBefore(0, HolderTier::kDevice, EngineKey{1}, &steps).empty());
  EXPECT_EQ(store(0, HolderTier::kDevice), 3u);
}

}  // namespace
}  // namespace ember::router
