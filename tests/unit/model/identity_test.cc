// One property: any difference in the identity, or two fields' values swapped, shares no key.
#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <utility>

#include "proto/base/random.h"
#include "proto/model/block_hash.h"

namespace ember {
namespace {

std::vector<TokenId> SomeTokens(size_t n) {
  std::vector<TokenId> tokens(n);
  for (size_t i = 0; i < n; ++i) tokens[i] = static_cast<TokenId>(i * 31 + 7);
  return tokens;
}

Sha256Digest DigestFilledWith(int v) {
  Sha256Digest d;
  d.fill(static_cast<std::byte>(v));
  return d;
}

KvNamespace BaseNamespace() {
  KvNamespace ns;
  ns.engine = "e";
  ns.engine_version = "v";
  ns.context_type = "c";
  ns.weights_digest = DigestFilledWith(1);
  ns.tokenizer_digest = DigestFilledWith(2);
  ns.adapter_digest = DigestFilledWith(3);
  ns.tenant = "t";
  ns.salt = "s";
  ns.extra = {{"a", "b"}};
  ns.layout = {.tokens_per_block = 16,
               .layers = 17,
               .kv_heads = 18,
               .head_size = 19,
               .key_type = "k",
               .value_type = "w",
               .order = "o",
               .group = CacheGroup::kFull,
               .rank = 3,
               .rank_count = 8};
  return ns;
}

std::set<BlockKey> KeysOf(const KvNamespace& ns) {
  HashChain chain(RootOf(ns), ns.layout.tokens_per_block);
  chain.Append(SomeTokens(size_t{ns.layout.tokens_per_block} * 8));
  std::set<BlockKey> keys;
  for (size_t i = 0; i < chain.blocks().size(); ++i) keys.insert(chain.key(i));
  return keys;
}

bool Shares(const KvNamespace& a, const KvNamespace& b) {
  const std::set<BlockKey> keys = KeysOf(a);
  for (const BlockKey& key : KeysOf(b)) {
    if (keys.contains(key)) return true;
  }
  return false;
}

using Change = std::function<void(KvNamespace&)>;

// Every field of the identity with a way to change it.
std::vector<std::pair<std::string, Change>> EveryFieldChanged() {
  std::vector<std::pair<std::string, Change>> changes = {
      {"engine", [](auto& n) { n.engine += 'x'; }},
      {"engine emptied", [](auto& n) { n.engine.clear(); }},
      {"engine_version", [](auto& n) { n.engine_version += 'x'; }},
      {"context_type", [](auto& n) { n.context_type += 'x'; }},
      {"weights_digest", [](auto& n) { n.weights_digest[31] ^= std::byte{1}; }},
      {"tokenizer_digest", [](auto& n) { n.tokenizer_digest[0] ^= std::byte{1}; }},
      {"adapter_digest", [](auto& n) { n.adapter_digest[7] ^= std::byte{1}; }},
      {"tenant", [](auto& n) { n.tenant += 'x'; }},
      {"salt", [](auto& n) { n.salt += 'x'; }},
      {"extra value", [](auto& n) { n.extra["a"] = "c"; }},
      {"extra name",
       [](auto& n) {
         n.extra = {{"b", "b"}};
       }},
      {"extra added", [](auto& n) { n.extra["z"] = ""; }},
      {"extra boundary",
       [](auto& n) {
         n.extra = {{"ab", ""}};
       }},
      {"boundary tenant|salt", [](auto& n) { n.tenant = "ts", n.salt = ""; }},
      {"tokens_per_block", [](auto& n) { n.layout.tokens_per_block = 32; }},
      {"layers", [](auto& n) { ++n.layout.layers; }},
      {"kv_heads", [](auto& n) { ++n.layout.kv_heads; }},
      {"head_size", [](auto& n) { ++n.layout.head_size; }},
      {"key_type", [](auto& n) { n.layout.key_type = "f16"; }},
      {"value_type", [](auto& n) { n.layout.value_type = "f16"; }},
      {"order", [](auto& n) { n.layout.order += 'x'; }},
      {"group", [](auto& n) { n.layout.group = CacheGroup::kSlidingWindow; }},
      {"rank", [](auto& n) { ++n.layout.rank; }},
      {"rank_count", [](auto& n) { n.layout.rank_count = 16; }},
  };
  return changes;
}

TEST(Identity, EveryChangedFieldSharesNoKey) {
  const KvNamespace base = BaseNamespace();
  EXPECT_TRUE(Shares(base, BaseNamespace()));
  for (const auto& [name, change] : EveryFieldChanged()) {
    KvNamespace other = base;
    change(other);
    EXPECT_FALSE(Shares(base, other)) << name;
  }
}

TEST(Identity, SwappedValuesOfTwoFieldsShareNoKey) {
  std::vector<std::function<std::string&(KvNamespace&)>> strings = {
      [](auto& n) -> auto& { return n.engine; },
      [](auto& n) -> auto& { return n.engine_version; },
      [](auto& n) -> auto& { return n.context_type; },
      [](auto& n) -> auto& { return n.tenant; },
      [](auto& n) -> auto& { return n.salt; },
      [](auto& n) -> auto& { return n.layout.key_type; },
      [](auto& n) -> auto& { return n.layout.value_type; },
      [](auto& n) -> auto& { return n.layout.order; }};
  std::vector<std::function<Sha256Digest&(KvNamespace&)>> digests = {
      [](auto& n) -> auto& { return n.weights_digest; },
      [](auto& n) -> auto& { return n.tokenizer_digest; },
      [](auto& n) -> auto& { return n.adapter_digest; }};
  std::vector<std::function<uint32_t&(KvNamespace&)>> numbers = {
      [](auto& n) -> auto& { return n.layout.tokens_per_block; },
      [](auto& n) -> auto& { return n.layout.layers; },
      [](auto& n) -> auto& { return n.layout.kv_heads; },
      [](auto& n) -> auto& { return n.layout.head_size; },
      [](auto& n) -> auto& { return n.layout.rank; },
      [](auto& n) -> auto& { return n.layout.rank_count; }};
  const auto check = [](const auto& fields) {
    for (size_t i = 0; i < fields.size(); ++i) {
      for (size_t j = i + 1; j < fields.size(); ++j) {
        KvNamespace other = BaseNamespace();
        std::swap(fields[i](other), fields[j](other));
        EXPECT_FALSE(Shares(BaseNamespace(), other)) << i << " with " << j;
      }
    }
  };
  check(strings);
  check(digests);
  check(numbers);
}

TEST(Identity, RandomPairsOfNamespacesMeetOnlyWhenEqual) {
  SeededRandom random(42);
  const auto changes = EveryFieldChanged();
  for (int round = 0; round < 300; ++round) {
    KvNamespace a = BaseNamespace();
    KvNamespace b = BaseNamespace();
    for (KvNamespace* n : {&a, &b}) {
      for (uint64_t k = random.Next() % 4; k > 0; --k)
        changes[random.Next() % changes.size()].second(*n);
    }
    EXPECT_EQ(Shares(a, b), a == b) << "round " << round;
  }
}

// A rolling hash let +31 and -1 in neighbouring tokens cancel: try that edit everywhere, and swaps.
TEST(HashChain, CraftedTokenEditsChangeEveryKeyFromThereOn) {
  const NamespaceRoot root = RootOf(BaseNamespace());
  const std::vector<TokenId> tokens = SomeTokens(64);
  HashChain chain(root, 16);
  chain.Append(tokens);
  const auto expect_differs_from = [&](const std::vector<TokenId>& edited, size_t first_block) {
    HashChain other(root, 16);
    other.Append(edited);
    for (size_t b = 0; b < 4; ++b) {
      EXPECT_EQ(other.blocks()[b].hash == chain.blocks()[b].hash, b < first_block) << b;
      EXPECT_EQ(other.blocks()[b].proof == chain.blocks()[b].proof, b < first_block) << b;
    }
  };
  for (size_t j = 0; j + 1 < tokens.size(); ++j) {
    auto edited = tokens;
    edited[j] += 31;
    edited[j + 1] -= 1;
    expect_differs_from(edited, j / 16);
    edited = tokens;
    std::swap(edited[j], edited[j + 1]);
    expect_differs_from(edited, j / 16);
  }
}

TEST(HashChain, AppendInPiecesEqualsAppendAtOnce) {
  const NamespaceRoot root = RootOf(BaseNamespace());
  const std::vector<TokenId> tokens = SomeTokens(100);
  const std::vector<TokenExtra> extras = {{1, 40, Bytes(3)}};
  HashChain whole(root, 16);
  EXPECT_EQ(whole.Append(tokens, extras), 96u);
  HashChain pieces(root, 16);
  size_t taken = pieces.Append(std::span(tokens).first(40), extras);
  EXPECT_EQ(taken, 32u);
  pieces.Append(std::span(tokens).subspan(taken), extras);
  ASSERT_EQ(pieces.blocks().size(), whole.blocks().size());
  EXPECT_EQ(pieces.blocks().back().hash, whole.blocks().back().hash);
}

TEST(HashBlocks, EqualsHashChainForEveryBlockSize) {
  for (const uint32_t per_block : {1u, 16u, 128u, 129u, 1000u}) {
    KvNamespace ns = BaseNamespace();
    ns.layout.tokens_per_block = per_block;
    const NamespaceRoot root = RootOf(ns);
    const std::vector<TokenId> tokens = SomeTokens(size_t{per_block} * 3 + per_block / 2);
    HashChain chain(root, per_block);
    chain.Append(tokens);
    const std::vector<BlockHash> hashes = HashBlocks(root.id, root.seed, per_block, tokens);
    ASSERT_EQ(hashes.size(), chain.blocks().size());
    for (size_t i = 0; i < hashes.size(); ++i) EXPECT_EQ(hashes[i], chain.blocks()[i].hash);
  }
}

TEST(HashChain, AnImageChangesOnlyBlocksFromItsOwnOn) {
  const NamespaceRoot root = RootOf(BaseNamespace());
  HashChain plain(root, 16);
  plain.Append(SomeTokens(64));
  HashChain image(root, 16);
  image.Append(SomeTokens(64), std::vector<TokenExtra>{{1, 20, Bytes(4)}});
  EXPECT_EQ(plain.blocks()[0].hash, image.blocks()[0].hash);
  for (size_t b = 1; b < 4; ++b) EXPECT_NE(plain.blocks()[b].hash, image.blocks()[b].hash);
}

}  // namespace
}  // namespace ember
