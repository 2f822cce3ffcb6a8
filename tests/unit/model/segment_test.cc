#include "proto/model/segment.h"

#include <gtest/gtest.h>

namespace ember {
namespace {

KvNamespace NamespaceWithBlocksOf(uint32_t tokens_per_block) {
  KvNamespace ns;
  ns.layout.tokens_per_block = tokens_per_block;
  ns.layout.layers = 1;
  return ns;
}

HashChain ChainOf(const KvNamespace& ns, size_t tokens) {
  HashChain chain(RootOf(ns), ns.layout.tokens_per_block);
  std::vector<TokenId> ids(tokens);
  for (size_t i = 0; i < tokens; ++i) ids[i] = static_cast<TokenId>(i);
  chain.Append(ids);
  return chain;
}

SegmentHeader SomeHeader() {
  SegmentHeader h;
  h.key.ns.bytes.fill(std::byte{1});
  h.key.hash.bytes.fill(std::byte{2});
  h.block_count = 1;
  h.tokens = {1, 2, 3};
  h.payload_length = 99;
  h.layer_offsets = {0, 50};
  h.writer = "w";
  h.tenant = "t";
  h.generation = {3, 4};
  return h;
}

TEST(Segment, ReachesAtLeast64TokensWithTheFewestBlocks) {
  EXPECT_EQ(BlocksPerSegment(1), 64u);
  EXPECT_EQ(BlocksPerSegment(16), 4u);
  EXPECT_EQ(BlocksPerSegment(48), 2u);
  EXPECT_EQ(BlocksPerSegment(64), 1u);
  EXPECT_EQ(BlocksPerSegment(128), 1u);
}

TEST(Segment, ReadersWithLongerPromptsCutTheSharedPartAlike) {
  const KvNamespace ns = NamespaceWithBlocksOf(16);
  const auto shorter = CutSegments(ChainOf(ns, 300));
  const auto longer = CutSegments(ChainOf(ns, 9000));
  ASSERT_EQ(shorter.size(), 4u);  // 300 tokens: four whole segments of 64, the rest left out
  for (size_t i = 0; i < shorter.size(); ++i) {
    EXPECT_EQ(shorter[i].key, longer[i].key);
    EXPECT_EQ(shorter[i].placement, longer[i].placement);
  }
}

TEST(Segment, A4096TokenGroupSharesItsPlacement) {
  const auto segments = CutSegments(ChainOf(NamespaceWithBlocksOf(64), 8192 + 64));
  ASSERT_EQ(segments.size(), 129u);
  for (size_t i = 0; i < segments.size(); ++i) {
    EXPECT_EQ(segments[i].placement, segments[i / 64 * 64].key.hash) << i;
  }
}

TEST(SegmentHeader, SurvivesEncoding) {
  const SegmentHeader h = SomeHeader();
  const auto decoded = DecodeSegmentHeader(Encode(h));
  ASSERT_TRUE(decoded.ok()) << decoded.status().ToString();
  EXPECT_EQ(*decoded, h);
}

TEST(SegmentHeader, EveryTruncationAndEveryFlippedBitIsRefused) {
  const Bytes good = Encode(SomeHeader());
  for (size_t n = 0; n < good.size(); ++n) {
    EXPECT_FALSE(DecodeSegmentHeader(ByteSpan(good).first(n)).ok()) << n;
  }
  for (size_t i = 0; i < good.size() * 8; ++i) {
    Bytes bad = good;
    bad[i / 8] ^= static_cast<std::byte>(1 << (i % 8));
    EXPECT_FALSE(DecodeSegmentHeader(bad).ok()) << "bit " << i;
  }
  Bytes longer = good;
  longer.push_back(std::byte{0});
  EXPECT_FALSE(DecodeSegmentHeader(longer).ok());
}

TEST(SegmentHeader, ReaderRefusesWhatIsNotExactlyWhatItAskedFor) {
  SegmentHeader h = SomeHeader();
  SegmentRef want{h.key, h.placement, h.first_block, h.block_count, h.proof};
  EXPECT_TRUE(CheckHeader(h, want, h.tokens, h.layout).ok());
  const auto refuses = [&](auto change) {
    SegmentHeader other = h;
    change(other);
    return CheckHeader(other, want, h.tokens, h.layout).code() == StatusCode::kMismatch;
  };
  EXPECT_TRUE(refuses([](auto& o) { o.key.hash.bytes[0] ^= std::byte{1}; }));
  EXPECT_TRUE(refuses([](auto& o) { o.proof[0] ^= std::byte{1}; }));
  EXPECT_TRUE(refuses([](auto& o) { o.tokens.back() = 7; }));
  EXPECT_TRUE(refuses([](auto& o) { o.tokens.pop_back(); }));
  EXPECT_TRUE(refuses([](auto& o) { o.layout[0] ^= std::byte{1}; }));
  EXPECT_TRUE(refuses([](auto& o) { o.first_block = 1; }));
}

}  // namespace
}  // namespace ember
