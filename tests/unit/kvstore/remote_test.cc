// What the gRPC door does for its callers, without the network: puts in pieces, pins read on other
// threads, purges of all shards.
#include <gtest/gtest.h>

#include "kvstore/node.h"
#include "kvstore/server/held_segment.h"
#include "kvstore/server/purger.h"
#include "kvstore/server/put_stream.h"
#include "tests/unit/kvstore/test_segments.h"
#include "tests/unit/support/eventually.h"

namespace ember::kv::testing {
namespace {

class RemoteTest : public ::testing::Test {
 protected:
  void SetUp() override {
    NodeConfig config;
    config.listen.port = 0;
    config.memory_bytes = 16 << 20;
    config.max_segment_bytes = 4 << 20;
    config.shards = 2;
    node_ = *Node::Start(config);
    doors_ = node_->doors();
  }
  const ShardDoor& DoorOfNumber(uint64_t number) const {
    const BlockKey key = KeyOf(number);
    return DoorOf(doors_, key.ns, key.hash);
  }
  std::unique_ptr<PutStream> Stream() {
    return std::make_unique<PutStream>(doors_, ++owner_, &clock_, clock_.Now() + seconds(20));
  }
  // In chunks of `chunk` bytes.
  static void Send(PutStream* stream, const TestSegment& segment, size_t chunk = 1 << 20) {
    ASSERT_TRUE(stream->Begin(std::string(AsString(segment.encoded_header))).ok());
    for (ByteSpan left = segment.payload; !left.empty();) {
      const ByteSpan piece = left.first(std::min(left.size(), chunk));
      ASSERT_TRUE(stream->Write(std::string(AsString(piece))).ok());
      left = left.subspan(piece.size());
    }
  }
  std::vector<StatusCode> Finish(PutStream* stream) {
    auto verdicts = stream->Finish(AckLevel::kMemory);
    EXPECT_TRUE(verdicts.ok()) << verdicts.status().ToString();
    std::vector<StatusCode> codes;
    if (verdicts.ok()) {
      for (const auto& verdict : *verdicts) codes.push_back(verdict.code);
    }
    return codes;
  }
  HeldSegment Hold(uint64_t number) {
    return *HoldSegment(DoorOfNumber(number), KeyOf(number), seconds(20));
  }
  uint64_t SumOf(uint64_t (*read)(ShardEngine&)) {
    uint64_t sum = 0;
    for (const ShardDoor& door : doors_) {
      sum += *AskShard<uint64_t>(door, seconds(20), [read](ShardEngine& engine) {
        return Result<uint64_t>(read(engine));
      });
    }
    return sum;
  }
  uint64_t Attempts() {
    return SumOf([](ShardEngine& engine) -> uint64_t { return engine.attempts(); });
  }
  uint64_t Pinned() {
    return SumOf([](ShardEngine& engine) -> uint64_t { return engine.pinned(); });
  }
  uint64_t Segments() {
    return SumOf([](ShardEngine& engine) -> uint64_t { return engine.segments(); });
  }

  const SteadyClock clock_;
  OwnerId owner_ = 1ull << 63;
  std::unique_ptr<Node> node_;
  std::vector<ShardDoor> doors_;
};

TEST_F(RemoteTest, SegmentsInPiecesOfAnySizeAreReadWhereTheyLie) {
  auto stream = Stream();
  for (uint64_t i = 0; i < 20; ++i) Send(stream.get(), MakeSegment(i, 1 + i * 5000), 777 + i * 100);
  EXPECT_EQ(Finish(stream.get()), std::vector(20, StatusCode::kOk));
  stream.reset();
  for (uint64_t i = 0; i < 20; ++i) {
    const HeldSegment held = Hold(i);
    ASSERT_EQ(held.miss, MissReason::kNone);
    EXPECT_EQ(held.payload.size(), 1 + i * 5000);
    EXPECT_TRUE(IsPayloadOf(i, held.payload));
    EXPECT_EQ(DecodeSegmentHeader(held.header)->key, KeyOf(i));
    EXPECT_EQ(Pinned(), 1u);
  }
  EXPECT_EQ(Pinned(), 0u) << "given back on the shard's thread, before what is posted later";
  EXPECT_EQ(Hold(99).miss, MissReason::kNeverStored);
}

TEST_F(RemoteTest, EverySegmentHasItsOwnVerdict) {
  auto stream = Stream();
  Send(stream.get(), MakeSegment(1, 1000));
  Send(stream.get(), MakeSegment(1, 1000));  // again: it is open no more, so it is there
  TestSegment corrupt = MakeSegment(2, 1000);
  corrupt.payload[500] ^= std::byte{1};
  Send(stream.get(), corrupt);
  TestSegment cut = MakeSegment(3, 1000);
  cut.payload.resize(999);
  Send(stream.get(), cut);
  TestSegment longer = MakeSegment(4, 1000);
  longer.payload.resize(1001);
  Send(stream.get(), longer);
  Send(stream.get(), MakeSegment(5, 5 << 20));  // over the node's limit
  ASSERT_TRUE(stream->Begin("no header").ok());
  ASSERT_TRUE(stream->Write("thrown away").ok());
  Send(stream.get(), MakeSegment(6, 1000));
  auto verdicts = *stream->Finish(AckLevel::kMemory);
  ASSERT_EQ(verdicts.size(), 8u);
  EXPECT_EQ(verdicts[0].code, StatusCode::kOk);
  EXPECT_FALSE(verdicts[0].had);
  EXPECT_EQ(verdicts[1].code, StatusCode::kOk);
  EXPECT_TRUE(verdicts[1].had);
  EXPECT_EQ(verdicts[2].code, StatusCode::kCorrupt);
  EXPECT_EQ(verdicts[3].code, StatusCode::kInvalid);
  EXPECT_EQ(verdicts[4].code, StatusCode::kInvalid);
  EXPECT_EQ(verdicts[5].code, StatusCode::kInvalid);
  EXPECT_NE(verdicts[6].code, StatusCode::kOk);
  EXPECT_EQ(verdicts[7].code, StatusCode::kOk);
  EXPECT_EQ(Segments(), 2u);
}

TEST_F(RemoteTest, AWriterThatGoesAwayLeavesNothingOpen) {
  auto stream = Stream();
  Send(stream.get(), MakeSegment(1, 1000));
  const TestSegment half = MakeSegment(2, 100'000);
  ASSERT_TRUE(stream->Begin(std::string(AsString(half.encoded_header))).ok());
  ASSERT_TRUE(stream->Write(std::string(1000, 'x')).ok());
  EXPECT_EQ(Attempts(), 1u);
  stream.reset();
  EXPECT_EQ(Attempts(), 0u);
  EXPECT_EQ(Segments(), 1u) << "what was whole before stays";
}

TEST_F(RemoteTest, WhatBreaksTheRulesEndsTheStream) {
  EXPECT_EQ(Stream()->Write("x").code(), StatusCode::kInvalid);
  EXPECT_EQ(Stream()->Begin(std::string(kMaxSegmentHeaderBytes + 1, 'x')).code(),
            StatusCode::kInvalid);
  auto stream = Stream();
  ASSERT_TRUE(stream->Begin("no header").ok());
  EXPECT_EQ(stream->Write(std::string(PutStream::kMaxChunkBytes + 1, 'x')).code(),
            StatusCode::kInvalid);
  for (size_t i = 1; i < PutStream::kMaxSegments; ++i) ASSERT_TRUE(stream->Begin("").ok());
  EXPECT_EQ(stream->Begin("").code(), StatusCode::kInvalid);
}

TEST_F(RemoteTest, AnExpiredDeadlineIsSaidAndLeavesNothingOpen) {
  {
    PutStream stream(doors_, ++owner_, &clock_, clock_.Now() - seconds(1));
    const TestSegment segment = MakeSegment(1, 1000);
    const Status status = stream.Begin(std::string(AsString(segment.encoded_header)));
    EXPECT_TRUE(status.ok() || status.code() == StatusCode::kDeadline);
  }
  EXPECT_EQ(Attempts(), 0u);
}

TEST_F(RemoteTest, APurgeIsOfAllShardsUnderOneGrowingEpoch) {
  {
    auto stream = Stream();
    for (uint64_t i = 0; i < 40; ++i) Send(stream.get(), MakeSegment(i, 1000));
    Finish(stream.get());
  }
  Purger purger(doors_);
  const auto other = purger.Purge(PurgeScope::OfTenant("somebody else"), seconds(20));
  ASSERT_TRUE(other.ok());
  EXPECT_EQ(other->segments, 0u);
  const auto outcome = purger.Purge(PurgeScope::OfNamespace(KeyOf(0).ns), seconds(20));
  ASSERT_TRUE(outcome.ok());
  EXPECT_EQ(outcome->segments, 40u);
  EXPECT_EQ(outcome->epoch, other->epoch + 1);
  for (uint64_t i = 0; i < 40; ++i) EXPECT_EQ(Hold(i).miss, MissReason::kPurged);
  // An own purger, as after a restart of the door, goes on counting.
  EXPECT_EQ(Purger(doors_).Purge(PurgeScope::Everything(), seconds(20))->epoch, outcome->epoch + 1);
}

}  // namespace
}  // namespace ember::kv::testing
