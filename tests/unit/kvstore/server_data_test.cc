// Puts, gets and matches over real sockets.
#include "tests/unit/kvstore/server_fixture.h"

namespace ember::kv::testing {
namespace {

using ServerDataTest = ServerTest;
EMBER_BOTH_BACK_ENDS(ServerDataTest);

TEST_P(ServerDataTest, HelloTellsWhoTheNodeIs) {
  RawClient client(port_);
  const auto reply = client.Call<wire::HelloReply>(wire::FrameType::kHello,
                                                   Encode(wire::Hello{.client_name = "me"}));
  EXPECT_EQ(reply.node_id, "s1");
  EXPECT_EQ(reply.incarnation, 77u);
  EXPECT_EQ(reply.max_payload_bytes, EngineOptions().max_segment_bytes);
  ASSERT_EQ(reply.members.size(), 1u);
  EXPECT_EQ(reply.members[0].port, port_);
}

TEST_P(ServerDataTest, WhatIsPutComesBack) {
  auto client = Client();
  const TestSegment segment = MakeSegment(1, 700'000);
  ASSERT_EQ(client->Put(segment), StatusCode::kOk);
  const RawClient::Got got = client->GetOne(1);
  EXPECT_EQ(got.reply.miss, MissReason::kNone);
  EXPECT_TRUE(IsPayloadOf(1, got.payload));
  EXPECT_EQ(*DecodeSegmentHeader(got.reply.header), segment.header);
  EXPECT_EQ(client->GetOne(2).reply.miss, MissReason::kNeverStored);
}

TEST_P(ServerDataTest, RangesAreExact) {
  auto client = Client();
  const TestSegment segment = MakeSegment(1, 100'000);
  ASSERT_EQ(client->Put(segment), StatusCode::kOk);
  auto expect_range = [&](uint64_t offset, uint64_t length) {
    const RawClient::Got got = client->GetOne(1, offset, length);
    ASSERT_EQ(got.reply.miss, MissReason::kNone);
    ASSERT_EQ(got.reply.offset, offset);
    const size_t want = length == 0 ? 100'000 - offset : length;
    ASSERT_EQ(got.payload.size(), want);
    ASSERT_TRUE(
        std::equal(got.payload.begin(), got.payload.end(), segment.payload.begin() + offset));
  };
  expect_range(0, 1);
  expect_range(99'999, 1);
  expect_range(4096, 50'000);
  expect_range(50'000, 0);
  expect_range(100'000, 0);
  for (auto [offset, length] : {std::pair{100'001ull, 0ull}, {0ull, 100'001ull}, {1ull, ~0ull}}) {
    const RawClient::Got got = client->GetOne(1, offset, length);
    EXPECT_EQ(got.reply.miss, MissReason::kLayoutDiffers);
    EXPECT_TRUE(got.payload.empty());
  }
}

// C37: every size up to the limit works; one byte more is refused before any body.
TEST_P(ServerDataTest, SizesUpToTheLimitAndNoFurther) {
  constexpr size_t kLimit = 300'000;
  Start({.engine = {.max_segment_bytes = kLimit}});
  auto client = Client();
  uint64_t number = 0;
  for (size_t size : {size_t{1}, size_t{4095}, size_t{4096}, size_t{65'536}, kLimit - 1, kLimit}) {
    ASSERT_EQ(client->Put(MakeSegment(++number, size)), StatusCode::kOk) << size;
    EXPECT_TRUE(IsPayloadOf(number, client->GetOne(number).payload)) << size;
  }
  const uint64_t used = OnEngine([&](ShardEngine&) { return arena_->used(); });
  for (uint64_t size : {uint64_t{0}, uint64_t{kLimit + 1}, uint64_t{10 * kLimit}, uint64_t{1} << 40,
                        ~uint64_t{0}}) {
    TestSegment segment = MakeSegment(++number, 1);
    segment.header.payload_length = size;
    segment.encoded_header = Encode(segment.header);
    EXPECT_EQ(client->ReserveOne(segment).code, StatusCode::kInvalid) << size;
  }
  EXPECT_TRUE(client->Ping());
  EXPECT_EQ(OnEngine([&](ShardEngine&) { return arena_->used(); }), used);
}

// C6: a batch is not all or nothing; each entry has its own verdict.
TEST_P(ServerDataTest, EachSegmentOfABatchHasItsOwnVerdict) {
  auto client = Client();
  ASSERT_EQ(client->Put(MakeSegment(0, 5000)), StatusCode::kOk);
  std::vector<TestSegment> segments;
  std::vector<Bytes> headers;
  for (uint64_t i = 0; i < 100; ++i) {
    segments.push_back(MakeSegment(i, 5000));
    if (i == 1) segments[i].header.payload_length = 1ull << 40;
    if (i == 1) segments[i].encoded_header = Encode(segments[i].header);
    if (i == 2) segments[i].payload[0] ^= std::byte{1};
    if (i == 3) segments[i].encoded_header[5] ^= std::byte{1};
    headers.push_back(segments[i].encoded_header);
  }
  headers.push_back(headers.back());  // the same key twice
  const wire::ReserveReply reply = client->Reserve(headers);
  ASSERT_EQ(reply.entries.size(), 101u);
  EXPECT_TRUE(reply.entries[0].have);
  EXPECT_EQ(reply.entries[1].code, StatusCode::kInvalid);
  EXPECT_EQ(reply.entries[3].code, StatusCode::kInvalid);
  EXPECT_EQ(reply.entries[100].code, StatusCode::kBusy);
  std::vector<wire::AttemptToken> tokens;
  for (uint64_t i : {2, 4}) tokens.push_back(reply.entries[i].token);
  for (uint64_t i = 5; i < 100; ++i) tokens.push_back(reply.entries[i].token);
  client->Write(tokens[0], 0, segments[2].payload);
  for (uint64_t i = 4; i < 100; ++i) client->Write(reply.entries[i].token, 0, segments[i].payload);
  const std::vector<StatusCode> codes = client->Commit(tokens);
  EXPECT_EQ(codes[0], StatusCode::kCorrupt);
  for (size_t i = 1; i < codes.size(); ++i) ASSERT_EQ(codes[i], StatusCode::kOk) << i;
  const wire::MatchReply match = client->Match({0, 1, 2, 3, 4, 99});
  std::vector<bool> present;
  for (const auto& entry : match.entries) present.push_back(entry.miss == MissReason::kNone);
  EXPECT_EQ(present, (std::vector<bool>{true, false, false, false, true, true}));
}

TEST_P(ServerDataTest, ABatchOfGetsLargerThanAnyBufferComesInOrder) {
  auto client = Client();
  std::vector<wire::GetItem> items;
  for (uint64_t i = 0; i < 40; ++i) {
    ASSERT_EQ(client->Put(MakeSegment(i, 100'000 + i * 5000)), StatusCode::kOk);
    items.push_back({KeyOf(i), 0, 0});
    items.push_back({KeyOf(i + 10'000), 0, 0});
  }
  const std::vector<RawClient::Got> got = client->Get(items);
  for (uint64_t i = 0; i < 40; ++i) {
    ASSERT_TRUE(IsPayloadOf(i, got[2 * i].payload)) << i;
    ASSERT_EQ(got[2 * i].payload.size(), 100'000 + i * 5000);
    ASSERT_EQ(got[2 * i + 1].reply.miss, MissReason::kNeverStored);
  }
}

// Requests of all kinds in one burst; replies come in their order.
TEST_P(ServerDataTest, PipelinedRequestsAreAnsweredInOrder) {
  auto client = Client();
  const TestSegment segment = MakeSegment(1, 50'000);
  const wire::ReserveEntry entry = client->ReserveOne(segment);
  for (uint64_t round = 0; round < 50; ++round) {
    client->SendFrame(wire::FrameType::kPing, 100 + round, {});
  }
  client->SendFrame(wire::FrameType::kWrite, 1, Encode(wire::Write{entry.token, 0}),
                    segment.payload);
  client->SendFrame(wire::FrameType::kCommit, 2, Encode(wire::Commit{{entry.token}}));
  client->SendFrame(wire::FrameType::kGet, 3, Encode(wire::Get{{{KeyOf(1), 0, 0}}}));
  client->SendFrame(wire::FrameType::kPing, 4, {});
  for (uint64_t round = 0; round < 50; ++round) {
    ASSERT_EQ(client->ReadFrame()->header.request_id, 100 + round);
  }
  EXPECT_EQ(client->ReadFrame()->header.request_id, 2u);
  EXPECT_TRUE(IsPayloadOf(1, client->ReadFrame()->payload));
  EXPECT_EQ(client->ReadFrame()->header.request_id, 4u);
}

TEST_P(ServerDataTest, AWriteForNobodyIsReadAndForgotten) {
  auto client = Client();
  const TestSegment segment = MakeSegment(1, 200'000);
  client->Write({1, 2}, 0, segment.payload);
  EXPECT_EQ(client->Commit({{1, 2}}).at(0), StatusCode::kNotFound);
  // Another connection's token is nobody's.
  const wire::ReserveEntry entry = witness_->ReserveOne(segment);
  client->Write(entry.token, 0, segment.payload);
  EXPECT_EQ(client->Commit({entry.token}).at(0), StatusCode::kNotFound);
  witness_->Write(entry.token, 0, segment.payload);
  EXPECT_EQ(witness_->Commit({entry.token}).at(0), StatusCode::kOk);
  EXPECT_EQ(metrics_.discarded_bytes.value(), 400'000u);
}

TEST_P(ServerDataTest, AWriteInPiecesOfAnySizeIsOneSegment) {
  auto client = Client();
  const TestSegment segment = MakeSegment(1, 777'777);
  const wire::ReserveEntry entry = client->ReserveOne(segment);
  SeededRandom random(5);
  for (size_t at = 0; at < segment.payload.size();) {
    const size_t n = std::min<size_t>(segment.payload.size() - at, random.Next() % 90'000);
    client->Write(entry.token, at, ByteSpan(segment.payload).subspan(at, n));
    at += n;
  }
  EXPECT_EQ(client->Commit({entry.token}).at(0), StatusCode::kOk);
  EXPECT_TRUE(IsPayloadOf(1, client->GetOne(1).payload));
}

TEST_P(ServerDataTest, AnAbortedPutLeavesNothing) {
  auto client = Client();
  const uint64_t used = OnEngine([&](ShardEngine&) { return arena_->used(); });
  const TestSegment segment = MakeSegment(1, 200'000);
  const wire::ReserveEntry entry = client->ReserveOne(segment);
  client->Write(entry.token, 0, ByteSpan(segment.payload).first(1000));
  client->SendFrame(wire::FrameType::kAbort, 9, Encode(wire::Abort{{entry.token, {3, 4}}}));
  EXPECT_EQ(client->Commit({entry.token}).at(0), StatusCode::kNotFound);
  EXPECT_EQ(OnEngine([&](ShardEngine&) { return arena_->used(); }), used);
}

TEST_P(ServerDataTest, TheLargestMatchFitsInOneFrame) {
  auto client = Client();
  std::vector<uint64_t> numbers(wire::kMaxKeysPerBatch, 3);
  numbers[17] = kWitness;
  const wire::MatchReply reply = client->Match(numbers);
  ASSERT_EQ(reply.entries.size(), wire::kMaxKeysPerBatch);
  EXPECT_EQ(reply.entries[17].payload_length, 3000u);
  EXPECT_EQ(reply.entries[16].miss, MissReason::kNeverStored);
}

// C26: evicted between match and get. With a lease it stays; without, the miss has its reason.
TEST_P(ServerDataTest, ALeaseHoldsWhatMatchedUntilItIsReleased) {
  Start({.memory = 2 << 20});
  auto client = Client();
  auto churn = [&](uint64_t from) {
    for (uint64_t i = from; i < from + 24; ++i) witness_->Put(MakeSegment(i, 100'000));
  };
  ASSERT_EQ(client->Put(MakeSegment(1, 100'000)), StatusCode::kOk);
  ASSERT_EQ(client->Put(MakeSegment(2, 100'000)), StatusCode::kOk);
  const wire::MatchReply leased = client->Match({1}, 50'000);
  EXPECT_NE(leased.lease_id, 0u);
  EXPECT_EQ(client->Match({2}).lease_id, 0u);
  churn(100);
  EXPECT_TRUE(IsPayloadOf(1, client->GetOne(1).payload));
  EXPECT_EQ(client->GetOne(2).reply.miss, MissReason::kEvicted);
  client->SendFrame(wire::FrameType::kRelease, 1, Encode(wire::Release{leased.lease_id}));
  ASSERT_TRUE(client->Ping());
  churn(200);
  EXPECT_EQ(client->GetOne(1).reply.miss, MissReason::kEvicted);
}

TEST_P(ServerDataTest, LeasesEndByDeadlineAndWithTheirConnection) {
  auto client = Client();
  EXPECT_NE(client->Match({kWitness}, 60'000).lease_id, 0u);
  EXPECT_NE(witness_->Match({kWitness}, 30).lease_id, 0u);
  EXPECT_TRUE(Eventually([&] { return OnEngine([](auto& e) { return e.leases(); }) == 1; }));
  client->CloseAbruptly();
  EXPECT_TRUE(Eventually([&] { return OnEngine([](auto& e) { return e.leases(); }) == 0; }));
}

TEST_P(ServerDataTest, ACorruptReportIsCheckedByTheNodeItself) {
  auto client = Client();
  const TestSegment segment = MakeSegment(1, 10'000);
  ASSERT_EQ(client->Put(segment), StatusCode::kOk);
  const Bytes report = Encode(wire::ReportCorrupt{KeyOf(1), segment.header.generation});
  client->SendFrame(wire::FrameType::kReportCorrupt, 1, report);
  EXPECT_EQ(client->GetOne(1).reply.miss, MissReason::kNone);
  OnEngine([](ShardEngine& engine) {
    auto found = engine.Get(KeyOf(1));
    const_cast<std::byte&>(found.pin.payload()[5]) ^= std::byte{1};
    return 0;
  });
  client->SendFrame(wire::FrameType::kReportCorrupt, 2, report);
  EXPECT_EQ(client->GetOne(1).reply.miss, MissReason::kCorrupt);
  EXPECT_EQ(engine_metrics_.corruptions.value(), 1u);
}

}  // namespace
}  // namespace ember::kv::testing
