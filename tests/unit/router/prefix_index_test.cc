#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "proto/base/random.h"
#include "router/index/prefix_index.h"

namespace ember::router {
namespace {

NamespaceId Ns(uint8_t n) {
  NamespaceId id;
  id.bytes.fill(std::byte{n});
  return id;
}

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
  PrefixIndex index(1000);
  index.Reset(1, Ns(1), {{0, Chain("abcd")}});
  index.Reset(2, Ns(1), {{0, Chain("abxy")}, {1, Chain("abc")}});
  const PrefixLookup found = index.Lookup(Ns(1), Chain("abcdef"));
  EXPECT_EQ(found.replica_blocks[1], 4u);
  EXPECT_EQ(found.replica_blocks[2], 3u);
  EXPECT_EQ(found.replica_blocks[0], 0u);
  EXPECT_EQ(found.store_blocks, 4u);
}

TEST(PrefixIndex, OnlyAnUnbrokenPrefixFromTheStartCounts) {  // A19
  PrefixIndex index(1000);
  index.Reset(1, Ns(1), {{0, Chain("A")}});
  index.Reset(2, Ns(1), {{0, Chain("B")}});
  // "BA" shares no block with "A": the chain contains what stands before.
  PrefixLookup found = index.Lookup(Ns(1), Chain("BA"));
  EXPECT_EQ(found.replica_blocks[1], 0u);
  EXPECT_EQ(found.replica_blocks[2], 1u);
  // Even when a holder has a later block of the very chain, a hole before it ends the match.
  const BlockChain abc = Chain("abc");
  index.Reset(3, Ns(1), {{0, {abc[0], abc[2]}}});
  EXPECT_EQ(index.Lookup(Ns(1), abc).replica_blocks[3], 1u);
  index.Reset(4, Ns(1), {{0, abc}});  // another holder without a hole keeps the walk going
  EXPECT_EQ(index.Lookup(Ns(1), abc).replica_blocks[3], 1u);
  EXPECT_EQ(index.Lookup(Ns(1), abc).replica_blocks[4], 3u);
}

TEST(PrefixIndex, NamespacesDoNotMix) {
  PrefixIndex index(1000);
  index.Reset(1, Ns(1), {{0, Chain("abc")}});
  const PrefixLookup found = index.Lookup(Ns(2), Chain("abc"));
  EXPECT_EQ(found.replica_blocks[1], 0u);
  EXPECT_EQ(found.store_blocks, 0u);
}

TEST(PrefixIndex, ASlotsNewContentReplacesTheOldButNotWhatAnotherSlotShares) {
  PrefixIndex index(1000);
  index.Reset(1, Ns(1), {{0, Chain("abcd")}, {1, Chain("abxy")}});
  index.SetHeld(1, {0, Chain("zz")});
  EXPECT_EQ(index.Lookup(Ns(1), Chain("abcd")).replica_blocks[1], 2u);
  EXPECT_EQ(index.Lookup(Ns(1), Chain("abxy")).replica_blocks[1], 4u);
  EXPECT_EQ(index.blocks_held(1), 6u);
  index.SetHeld(1, {1, {}});
  EXPECT_EQ(index.Lookup(Ns(1), Chain("abxy")).replica_blocks[1], 0u);
  EXPECT_EQ(index.Lookup(Ns(1), Chain("abxy")).store_blocks, 4u)
      << "the store is presumed to keep it";
}

TEST(PrefixIndex, AReplicasEntriesGoWhenItGoes) {
  PrefixIndex index(1000);
  index.Reset(1, Ns(1), {{0, Chain("abcd")}});
  index.Presume(1, Ns(1), Chain("qr"));
  index.RemoveReplica(1);
  EXPECT_EQ(index.blocks_held(1), 0u);
  EXPECT_EQ(index.Lookup(Ns(1), Chain("abcd")).replica_blocks[1], 0u);
  EXPECT_EQ(index.Lookup(Ns(1), Chain("abcd")).store_blocks, 4u);
  EXPECT_EQ(index.blocks(), 4u) << "what was only presumed is gone altogether";
}

TEST(PrefixIndex, ADecisionIsPresumedHeldUntilTheReplicaReports) {
  PrefixIndex index(1000);
  index.Reset(1, Ns(1), {});
  const auto p = index.Presume(1, Ns(1), Chain("abcd"));
  EXPECT_EQ(index.Lookup(Ns(1), Chain("abcd")).replica_blocks[1], 4u);
  EXPECT_EQ(index.Lookup(Ns(1), Chain("abcd")).store_blocks, 0u);
  index.SetHeld(1, {0, Chain("zz")});  // a report while the request runs: still to come
  EXPECT_EQ(index.Lookup(Ns(1), Chain("abcd")).replica_blocks[1], 4u);
  index.Settle(1, p);
  EXPECT_EQ(index.Lookup(Ns(1), Chain("abcd")).replica_blocks[1], 4u);
  index.SetHeld(1, {0, Chain("ab")});  // the report after it: only this much stayed
  EXPECT_EQ(index.Lookup(Ns(1), Chain("abcd")).replica_blocks[1], 2u);
}

TEST(PrefixIndex, MemoryIsBoundedAndTheOldestChainsLoseTheirEndsFirst) {
  PrefixIndex index(8);
  index.Reset(1, Ns(1), {{0, Chain("abcd")}});
  index.Reset(2, Ns(1), {{0, Chain("wxyz")}});
  index.Lookup(Ns(1), Chain("abcd"));
  index.SetHeld(2, {1, Chain("mn")});
  EXPECT_EQ(index.blocks(), 8u);
  EXPECT_EQ(index.evictions(), 2u);
  EXPECT_EQ(index.Lookup(Ns(1), Chain("abcd")).replica_blocks[1], 4u);
  EXPECT_EQ(index.Lookup(Ns(1), Chain("wxyz")).replica_blocks[2], 2u);
  EXPECT_EQ(index.blocks_held(2), 4u);
  index.SetHeld(2, {2, Chain("0123456789abcdef")});
  EXPECT_EQ(index.blocks(), 8u);
}

TEST(PrefixIndex, WhatTheStoreLackedIsForgottenUntilItIsReportedAgain) {
  PrefixIndex index(1000);
  index.Reset(1, Ns(1), {{0, Chain("abcd")}});
  index.ForgetStored(Ns(1), Chain("abcd"), 2);
  EXPECT_EQ(index.Lookup(Ns(1), Chain("abcd")).store_blocks, 2u);
  EXPECT_EQ(index.Lookup(Ns(1), Chain("abcd")).replica_blocks[1], 4u) << "its holder still has it";
  index.SetHeld(1, {1, Chain("abcx")});
  EXPECT_EQ(index.Lookup(Ns(1), Chain("abcx")).store_blocks, 4u);
  index.RemoveReplica(1);
  index.ForgetStored(Ns(1), Chain("abcx"), 0);
  EXPECT_EQ(index.blocks(), 0u);
}

TEST(PrefixIndex, PresumptionsOfAReplicaThatNeverReportsAreBounded) {
  PrefixIndex index(100000);
  for (int i = 0; i < 5000; ++i) index.Presume(3, Ns(1), Chain("p" + std::to_string(i)));
  EXPECT_LE(index.blocks(), 256u * 5);
}

TEST(PrefixIndex, NonsenseIsHarmless) {
  PrefixIndex index(100);
  index.SetHeld(1, {0, Chain("abc")});  // before any snapshot
  EXPECT_EQ(index.blocks(), 0u);
  index.Settle(1, 77);
  index.RemoveReplica(5);
  EXPECT_EQ(index.Lookup(Ns(1), {}).store_blocks, 0u);
  const BlockChain a = Chain("a");
  index.Reset(1, Ns(1), {{0, {a[0], a[0], a[0]}}, {0, Chain("b")}});  // repeats, one slot twice
  EXPECT_EQ(index.blocks_held(1), 1u);
  index.RemoveReplica(1);
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
    PrefixIndex index(1 << 20);
    Oracle oracle;
    for (int step = 0; step < 600; ++step) {
      const auto r = static_cast<uint32_t>(random.Next() % 4);
      Oracle::Holder& holder = oracle.holders[r];
      switch (random.Next() % 12) {
        case 0:
          index.Reset(r, Ns(1), {});
          holder = {.known = true};
          break;
        case 1:
          index.RemoveReplica(r);
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
          holder.guesses.push_back({index.Presume(r, Ns(1), chain), chain, false});
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
      const PrefixLookup found = index.Lookup(Ns(1), asked);
      for (uint32_t i = 0; i < 4; ++i) {
        ASSERT_EQ(found.replica_blocks[i], oracle.Longest(i, asked))
            << "seed " << seed << " step " << step;
      }
      ASSERT_EQ(found.store_blocks, oracle.Stored(asked)) << "seed " << seed << " step " << step;
    }
  }
}

TEST(PrefixIndex, UnderACapItNeverClaimsMoreThanTheOracleAndItsCountsStayTrue) {
  SeededRandom random(11);
  PrefixIndex index(40);
  Oracle oracle;
  for (uint32_t r = 0; r < 4; ++r) {
    index.Reset(r, Ns(1), {});
    oracle.holders[r].known = true;
  }
  for (int step = 0; step < 5000; ++step) {
    const auto r = static_cast<uint32_t>(random.Next() % 4);
    const auto slot = static_cast<uint32_t>(random.Next() % 3);
    const BlockChain chain = RandomChain(random), asked = RandomChain(random);
    index.SetHeld(r, {slot, chain});
    oracle.Report(r, slot, chain);
    const PrefixLookup found = index.Lookup(Ns(1), asked);
    for (uint32_t i = 0; i < 4; ++i) ASSERT_LE(found.replica_blocks[i], oracle.Longest(i, asked));
    ASSERT_LE(index.blocks(), 40u);
  }
  for (uint32_t r = 0; r < 4; ++r) index.RemoveReplica(r);
  for (uint32_t r = 0; r < 4; ++r) EXPECT_EQ(index.blocks_held(r), 0u);
}

}  // namespace
}  // namespace ember::router
