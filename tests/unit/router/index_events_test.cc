// The index as engines' cache events, stores' feeds and holders that come and go move it.
#include <gtest/gtest.h>

#include <map>

#include "tests/unit/router/index_fixture.h"
#include "tests/unit/support/sanitized.h"

namespace ember::router {
namespace {

constexpr HolderTier kDevice = HolderTier::kDevice;
constexpr HolderTier kHost = HolderTier::kHost;

TEST(IndexEvents, StoredBlocksAreFoundAndRemovedOnesAreNot) {
  PrefixIndex index(kRoomyIndex);
  AddReplicas(index, 2);
  const BlockChain chain = NumberedChain(1, 40);
  const auto keys = KeysOf(chain);
  index.Store(0, kDevice, std::nullopt, std::span(keys).first(16), std::span(chain).first(16));
  index.Store(0, kDevice, keys[15], std::span(keys).subspan(16), std::span(chain).subspan(16));
  EXPECT_EQ(index.Lookup(chain).Of(0).device_blocks, 40u);
  EXPECT_EQ(index.Lookup(chain).Of(1).any_tier_blocks, 0u);
  EXPECT_EQ(index.Lookup(std::span(chain).subspan(1)).Of(0).device_blocks, 39u);
  index.Remove(0, kDevice, std::span(keys).subspan(30));
  EXPECT_EQ(index.Lookup(chain).Of(0).device_blocks, 30u);
  index.Remove(0, kDevice, std::span(keys).subspan(5, 1));
  EXPECT_EQ(index.Lookup(chain).Of(0).device_blocks, 5u)
      << "what stands behind a hole is no prefix";
  index.Store(0, kDevice, keys[4], std::span(keys).subspan(5, 1), std::span(chain).subspan(5, 1));
  EXPECT_EQ(index.Lookup(chain).Of(0).device_blocks, 30u);
  EXPECT_EQ(index.blocks(), 30u);
  EXPECT_EQ(index.blocks_held(0), 30u);
}

TEST(IndexEvents, AreIdempotentAndUnknownOnesAreIgnored) {
  PrefixIndex index(kRoomyIndex);
  AddReplicas(index, 2);
  const BlockChain chain = NumberedChain(1, 20);
  for (int i = 0; i < 3; ++i) StoreChain(index, 0, chain);
  EXPECT_EQ(index.blocks_held(0), 20u);
  RemoveChain(index, 1, chain);
  RemoveChain(index, 0, NumberedChain(2, 20));
  EXPECT_EQ(index.Lookup(chain).Of(0).device_blocks, 20u);
  for (int i = 0; i < 3; ++i) RemoveChain(index, 0, chain);
  EXPECT_EQ(index.blocks(), 0u);
  for (const HolderId nobody : {HolderId{7}, kNoHolder}) {
    StoreChain(index, nobody, chain);
    RemoveChain(index, nobody, chain);
    index.SetHeld(nobody, {0, chain});
    EXPECT_EQ(index.Presume(nobody, chain), 0u);
    index.Settle(nobody, 1);
    index.ClearHolder(nobody);
    index.RemoveHolder(nobody);
    EXPECT_EQ(index.HashOf(nobody, KeyOf(chain[0])), std::nullopt);
    EXPECT_EQ(index.blocks_held(nobody), 0u);
  }
  EXPECT_EQ(index.blocks(), 0u);
}

TEST(IndexEvents, BlocksAreCountedInEachTierTheyLieIn) {
  PrefixIndex index(kRoomyIndex);
  AddReplicas(index, 2);
  const BlockChain chain = NumberedChain(1, 20);
  const auto counts = [&](HolderId holder) {
    const HeldCount held = index.held(holder);
    return std::vector<uint32_t>{held.any, held.device, held.host, held.disk};
  };
  using Counts = std::vector<uint32_t>;
  StoreChain(index, 0, chain);
  StoreChain(index, 1, chain, HolderTier::kDisk);
  StoreChain(index, 0, NumberedChain(1, 8), kHost);
  EXPECT_EQ(counts(0), (Counts{20, 20, 8, 0}));
  EXPECT_EQ(counts(1), (Counts{20, 0, 0, 20}));
  // Presumed and reported to be on the device is there once.
  const auto presumption = index.Presume(0, NumberedChain(1, 25));
  EXPECT_EQ(counts(0), (Counts{25, 25, 8, 0}));
  RemoveChain(index, 0, chain);
  EXPECT_EQ(counts(0), (Counts{25, 25, 8, 0})) << "presumed still";
  index.Settle(0, presumption);
  RemoveChain(index, 0, NumberedChain(2, 1));
  EXPECT_EQ(counts(0), (Counts{8, 0, 8, 0})) << "the next event knows better";
  RemoveChain(index, 0, chain, kHost);
  EXPECT_EQ(counts(0), (Counts{0, 0, 0, 0}));
  index.ClearHolder(1);
  EXPECT_EQ(counts(1), (Counts{0, 0, 0, 0}));
}

TEST(IndexEvents, APrefixCountsOnlyFromTheStart) {  // A19
  PrefixIndex index(kRoomyIndex);
  AddReplicas(index, 2);
  const BlockChain a = NumberedChain(1, 10);
  const BlockChain b = NumberedChain(2, 10);
  StoreChain(index, 0, a);
  StoreChain(index, 1, b);
  const PrefixLookup found = index.Lookup(Branch(b, 3, 10));
  ASSERT_EQ(found.holders.size(), 1u);
  EXPECT_EQ(found.holders[0].holder, 1);
  EXPECT_EQ(found.holders[0].device_blocks, 10u);
}

TEST(IndexEvents, ARemovalThatIsFollowedByARestoreLeavesTheBlocks) {  // A6
  PrefixIndex index(kRoomyIndex);
  AddReplicas(index, 1);
  const BlockChain chain = NumberedChain(1, 64);
  StoreChain(index, 0, chain);
  for (int round = 0; round < (EMBER_TEST_SANITIZED ? 1000 : 10'000); ++round) {
    const size_t from = static_cast<size_t>(round) % 64;
    const BlockChain tail(chain.begin() + static_cast<ptrdiff_t>(from), chain.end());
    RemoveChain(index, 0, tail);
    ASSERT_EQ(index.Lookup(chain).Of(0).device_blocks, from);
    StoreChain(index, 0, chain);
    ASSERT_EQ(index.Lookup(chain).Of(0).device_blocks, 64u);
  }
  EXPECT_EQ(index.blocks(), 64u);
}

TEST(IndexEvents, AHolderThatLeftIsNotNamedAndComesBackEmpty) {  // A7
  PrefixIndex index(kRoomyIndex);
  AddReplicas(index, 4);
  const BlockChain chain = NumberedChain(1, 5000);
  for (HolderId h = 0; h < 4; ++h) StoreChain(index, h, chain);
  index.RemoveHolder(2);
  EXPECT_EQ(index.Lookup(chain).holders.size(), 3u);
  EXPECT_EQ(index.Lookup(chain).Of(2).any_tier_blocks, 0u);
  StoreChain(index, 2, chain);  // events that were under way
  EXPECT_EQ(index.Lookup(chain).holders.size(), 3u);
  const HolderId again = index.AddHolder(HolderKind::kReplica);
  EXPECT_NE(again, 2) << "a number is given out again as late as possible";
  EXPECT_EQ(index.Lookup(chain).Of(again).any_tier_blocks, 0u);
  EXPECT_EQ(index.HashOf(again, KeyOf(chain[0])), std::nullopt);
  index.ClearHolder(1);
  EXPECT_EQ(index.blocks_held(1), 0u);
  StoreChain(index, 1, NumberedChain(1, 7));
  EXPECT_EQ(index.Lookup(chain).Of(1).device_blocks, 7u) << "the old life's blocks do not count on";
  EXPECT_EQ(index.blocks_held(1), 7u);
}

TEST(IndexEvents,
     AHolderThatLeftALargeIndexIsNotNamedEither) {  // A7: its blocks are not swept up yet
  PrefixIndex index(kRoomyIndex);
  AddReplicas(index, 3);
  StoreChain(index, 0, NumberedChain(1, 100'000));
  const BlockChain chain = NumberedChain(2, 100);
  StoreChain(index, 1, chain);
  StoreChain(index, 2, chain);
  index.ClearHolder(1);
  const GroupChain group[] = {{chain, 16, 0}};
  ASSERT_EQ(index.LookupGroups(group).size(), 1u);
  EXPECT_EQ(index.LookupGroups(group)[0].holder, 2);
  const PrefixLookup found = index.Lookup(chain);
  ASSERT_EQ(found.holders.size(), 1u);
  EXPECT_EQ(found.holders[0].holder, 2);
  StoreChain(index, 1, BlockChain(chain.begin(), chain.begin() + 30));
  EXPECT_EQ(index.Lookup(chain).Of(1).device_blocks, 30u);
  index.RemoveHolder(2);
  // The sweep that is under way ends, and the next goes round.
  for (int i = 0; i < 2; ++i) StoreChain(index, 0, NumberedChain(3, 100'000));
  EXPECT_EQ(index.blocks(), 200'030u);
}

TEST(IndexEvents, HoldersAreManyAndTheirNumbersAreGivenOutAgain) {
  PrefixIndex index(kRoomyIndex);
  const BlockChain chain = NumberedChain(1, 3);
  for (size_t i = 0; i < kMaxHolders; ++i) {
    const HolderId holder = index.AddHolder(HolderKind::kReplica);
    ASSERT_NE(holder, kNoHolder);
    StoreChain(index, holder, BlockChain(chain.begin(), chain.begin() + 1 + i % 3));
  }
  EXPECT_EQ(index.AddHolder(HolderKind::kReplica), kNoHolder);
  const PrefixLookup found = index.Lookup(chain);
  ASSERT_EQ(found.holders.size(), kMaxHolders);
  for (const HolderMatch& m : found.holders) EXPECT_EQ(m.device_blocks, 1u + m.holder % 3);
  index.RemoveHolder(500);
  EXPECT_EQ(index.AddHolder(HolderKind::kReplica), 500);
  EXPECT_EQ(index.Lookup(chain).holders.size(), kMaxHolders - 1);
}

TEST(IndexEvents, TiersCountApart) {  // A13
  PrefixIndex index(kRoomyIndex);
  AddReplicas(index, 1);
  const BlockChain chain = NumberedChain(1, 10);
  StoreChain(index, 0, BlockChain(chain.begin(), chain.begin() + 6), kDevice);
  StoreChain(index, 0, BlockChain(chain.begin() + 4, chain.end()), kHost);
  EXPECT_EQ(index.Lookup(chain).Of(0).device_blocks, 6u);
  EXPECT_EQ(index.Lookup(chain).Of(0).any_tier_blocks, 10u);
  RemoveChain(index, 0, chain, kDevice);
  EXPECT_EQ(index.Lookup(std::span(chain).subspan(4)).Of(0).device_blocks, 0u);
  EXPECT_EQ(index.Lookup(std::span(chain).subspan(4)).Of(0).any_tier_blocks, 6u)
      << "the other tier survives";
  EXPECT_EQ(index.HashOf(0, KeyOf(chain[5])), chain[5]);
  RemoveChain(index, 0, chain, kHost);
  EXPECT_EQ(index.HashOf(0, KeyOf(chain[5])), std::nullopt);
  EXPECT_EQ(index.blocks(), 0u);
}

TEST(IndexEvents, EveryHolderHasItsOwnNames) {
  PrefixIndex index(kRoomyIndex);
  AddReplicas(index, 3);
  const BlockChain chain = NumberedChain(1, 100);
  for (HolderId h = 0; h < 3; ++h) StoreChain(index, h, chain, kDevice, h);
  for (HolderId h = 0; h < 3; ++h) {
    EXPECT_EQ(index.HashOf(h, KeyOf(chain[50], h)), chain[50]);
    EXPECT_EQ(index.HashOf(h, KeyOf(chain[50], 3 + h)), std::nullopt);
  }
  RemoveChain(index, 2, chain, kDevice, 1);
  EXPECT_EQ(index.Lookup(chain).Of(2).device_blocks, 100u) << "not its names";
  RemoveChain(index, 0, chain, kDevice, 0);
  RemoveChain(index, 1, chain, kDevice, 1);
  EXPECT_EQ(index.Lookup(chain).holders.size(), 1u);
  EXPECT_EQ(index.HashOf(2, KeyOf(chain[99], 2)), chain[99]);
  RemoveChain(index, 2, chain, kDevice, 2);
  EXPECT_EQ(index.blocks(), 0u);
}

TEST(IndexEvents, ANameThatIsGivenToAnotherBlockIsThatOfTheFirstNoLonger) {
  PrefixIndex index(kRoomyIndex);
  AddReplicas(index, 2);
  for (const uint64_t dialect : {0, 1}) {  // the block's first name, and one of a holder's own
    const BlockChain first = NumberedChain(10 + dialect, 1);
    const BlockChain second = NumberedChain(20 + dialect, 1);
    StoreChain(index, 1, first);
    StoreChain(index, 1, second);
    const auto key = KeysOf(first, dialect);
    index.Store(0, kDevice, std::nullopt, key, first);
    index.Store(0, kDevice, std::nullopt, key, second);
    EXPECT_EQ(index.HashOf(0, key[0]), second[0]);
    EXPECT_EQ(index.Lookup(first).Of(0).device_blocks, 0u);
    EXPECT_EQ(index.Lookup(first).Of(1).device_blocks, 1u);
    index.Remove(0, kDevice, key);
    EXPECT_EQ(index.Lookup(second).Of(0).device_blocks, 0u);
    EXPECT_EQ(index.Lookup(second).Of(1).device_blocks, 1u);
  }
}

TEST(IndexEvents, NamesOfEveryFormAndWidthStayApart) {  // A12
  const EngineKeyFold fold(99);
  const auto bytes = [](std::initializer_list<int> values) {
    Bytes out;
    for (const int v : values) out.push_back(static_cast<std::byte>(v));
    return out;
  };
  Bytes wide(32, std::byte{7});
  Bytes wider = wide;
  wider.back() = std::byte{8};
  const std::vector<EngineKey> keys = {
      fold.OfSigned(-1),
      fold.OfUnsigned(UINT64_MAX),
      fold.OfUnsigned((uint64_t{1} << 63) + 5),
      fold.OfSigned(INT64_MIN + 5),
      fold.OfUnsigned(5),
      fold.OfUnsigned(5, 1),  // another cache group
      fold.OfBytes(bytes({5, 0, 0, 0, 0, 0, 0, 0})),
      fold.OfBytes(bytes({0, 0, 0, 0, 0, 0, 0, 5})),
      fold.OfBytes(bytes({5})),
      fold.OfBytes({}),
      fold.OfBytes(wide),
      fold.OfBytes(wider),
      fold.OfBytes(ByteSpan(wide).first(31)),
  };
  EXPECT_EQ(fold.OfSigned(5), fold.OfUnsigned(5)) << "one number, however it was packed";
  EXPECT_NE(EngineKeyFold(98).OfUnsigned(5), fold.OfUnsigned(5)) << "the seed is part of it";
  PrefixIndex index(kRoomyIndex);
  AddReplicas(index, 1);
  const BlockChain chain = NumberedChain(1, keys.size());
  index.Store(0, kDevice, std::nullopt, keys, chain);
  for (size_t i = 0; i < keys.size(); ++i) EXPECT_EQ(index.HashOf(0, keys[i]), chain[i]) << i;
  for (size_t i = 0; i < keys.size(); ++i) {
    index.Remove(0, kDevice, std::span(keys).subspan(i, 1));
    EXPECT_EQ(index.blocks_held(0), keys.size() - 1 - i) << "each removal takes its own block";
    EXPECT_EQ(index.HashOf(0, keys[i]), std::nullopt);
  }
}

TEST(IndexEvents, StoresAreMatchedTogetherByTheirSegmentsEnds) {
  PrefixIndex index(kRoomyIndex);
  AddReplicas(index, 1);
  const HolderId first = index.AddHolder(HolderKind::kStoreNode);
  const HolderId second = index.AddHolder(HolderKind::kStoreNode);
  const BlockChain chain = NumberedChain(1, 18);
  index.StoreBlock(first, kDevice, chain[3]);
  index.StoreBlock(second, HolderTier::kDisk, chain[7]);
  index.StoreBlock(first, kDevice, chain[7]);
  index.StoreBlock(second, kDevice, chain[15]);
  PrefixLookup found = index.Lookup(chain, 4);
  EXPECT_EQ(found.store_blocks, 8u) << "the segment that ends with block 11 is nowhere";
  EXPECT_TRUE(found.holders.empty());
  EXPECT_EQ(index.Lookup(chain).store_blocks, 0u);
  index.StoreBlock(first, kDevice, chain[11]);
  EXPECT_EQ(index.Lookup(chain, 4).store_blocks, 16u);
  StoreChain(index, 0, BlockChain(chain.begin(), chain.begin() + 5));
  found = index.Lookup(chain, 4);
  EXPECT_EQ(found.store_blocks, 16u);
  EXPECT_EQ(found.Of(0).device_blocks, 5u);
  index.RemoveBlock(first, kDevice, chain[7]);
  EXPECT_EQ(index.Lookup(chain, 4).store_blocks, 16u) << "the other node has it";
  index.RemoveHolder(second);
  EXPECT_EQ(index.Lookup(chain, 4).store_blocks, 4u);
}

// Two replicas keep what they reported; the others are told of all kinds of things.
class Storm {
 public:
  static constexpr HolderId kHolders = 6;
  Storm(uint64_t seed, const PrefixIndexOptions& options) : random_(seed), index_(options) {
    AddReplicas(index_, kHolders);
  }

  void Step() {
    const auto h = static_cast<HolderId>(random_.Next() % kHolders);
    const auto tier = static_cast<HolderTier>(random_.Next() % 3);
    const TierBits bit = static_cast<TierBits>(1 << static_cast<int>(tier));
    const uint64_t dialect = h % 3;
    const BlockChain chain = RandomChain();
    switch (random_.Next() % 16) {
      default: {
        const size_t from = random_.Next() % (chain.size() + 1);
        const BlockChain part(chain.begin() + static_cast<ptrdiff_t>(from), chain.end());
        std::optional<EngineKey> parent;
        if (from > 0) parent = KeyOf(chain[from - 1], dialect);
        index_.Store(h, tier, parent, KeysOf(part, dialect), part);
        for (const BlockHash& block : part) held_[h][block] |= bit;
        break;
      }
      case 0:
      case 1:
      case 2:
      case 3:
      case 4: {
        BlockChain gone;
        for (const BlockHash& block : chain) {
          if (random_.Next() % 2 != 0) continue;
          gone.push_back(block);
          held_[h][block] &= static_cast<TierBits>(~bit);
        }
        RemoveChain(index_, h, gone, tier, dialect);
        break;
      }
      case 5:
        index_.ClearHolder(h);
        held_[h].clear();
        break;
      case 6: {
        index_.RemoveHolder(h);
        held_[h].clear();
        HolderId again = kNoHolder;
        while (again != h) {  // numbers go round
          again = index_.AddHolder(HolderKind::kReplica);
          if (again != h) index_.RemoveHolder(again);
        }
        break;
      }
    }
  }

  uint32_t Longest(HolderId h, const BlockChain& chain, TierBits tiers) const {
    uint32_t n = 0;
    while (n < chain.size() && (TiersOf(h, chain[n]) & tiers) != 0) ++n;
    return n;
  }
  TierBits TiersOf(HolderId h, const BlockHash& block) const {
    const auto it = held_[h].find(block);
    return it == held_[h].end() ? 0 : it->second;
  }

  BlockChain RandomChain() {
    const BlockChain trunk = NumberedChain(random_.Next() % 3, random_.Next() % 40);
    return Branch(trunk, random_.Next() % 4, random_.Next() % 60);
  }
  PrefixIndex& index() { return index_; }

 private:
  SeededRandom random_;
  PrefixIndex index_;
  std::array<std::map<BlockHash, TierBits>, kHolders> held_;
};

TEST(IndexEvents, AgreeWithTheOracleInRandomStorms) {
  for (uint64_t seed = 0; seed < (EMBER_TEST_SANITIZED ? 3 : 12); ++seed) {
    Storm storm(seed, kRoomyIndex);
    for (int step = 0; step < 800; ++step) {
      storm.Step();
      const BlockChain asked = storm.RandomChain();
      const PrefixLookup found = storm.index().Lookup(asked);
      for (HolderId h = 0; h < Storm::kHolders; ++h) {
        ASSERT_EQ(found.Of(h).device_blocks, storm.Longest(h, asked, 1)) << seed << " " << step;
        ASSERT_EQ(found.Of(h).any_tier_blocks, storm.Longest(h, asked, 7)) << seed << " " << step;
        if (asked.empty()) continue;
        const auto hash = storm.index().HashOf(h, KeyOf(asked.back(), h % 3));
        ASSERT_EQ(hash.has_value(), storm.TiersOf(h, asked.back()) != 0) << seed << " " << step;
        if (hash) ASSERT_EQ(*hash, asked.back());
      }
    }
    for (HolderId h = 0; h < Storm::kHolders; ++h) storm.index().ClearHolder(h);
    EXPECT_EQ(storm.index().blocks(), 0u);
  }
}

}  // namespace
}  // namespace ember::router
