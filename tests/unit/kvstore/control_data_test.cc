// Segments over gRPC: the same answers as over the data plane, with the data port out of reach.
#include "client/grpc_client/grpc_store_client.h"
#include "client/grpc_client/segment_pieces.h"
#include "kvstore/server/store_data.h"
#include "tests/unit/kvstore/control_fixture.h"

namespace ember::kv::testing {
namespace {

class ControlDataTest : public ControlFixture {
 protected:
  std::unique_ptr<StoreClient> Client() {
    return *MakeGrpcStoreClient(
        {.nodes = {{config_.listen.host, kGrpcPort}}, .tenant = "acme", .copies = 1});
  }
  static PutOutcome PutOne(StoreClient& client, const TestSegment& segment, uint64_t number) {
    const PutRequest request{.ref = RefOf(number),
                             .tokens = segment.header.tokens,
                             .payload = segment.payload,
                             .layer_offsets = {}};
    return client.Put({&request, 1}, segment.header.layout, seconds(10)).at(0);
  }
  // The reason of the miss; on a hit the bytes are checked.
  static MissReason GetOne(StoreClient& client, uint64_t number, size_t bytes) {
    const TestSegment like = MakeSegment(number, 1);
    Bytes buffer(bytes);
    const GetRequest request{.ref = RefOf(number), .tokens = like.header.tokens, .buffer = buffer};
    const GetResult result = client.Get({&request, 1}, like.header.layout, seconds(10));
    if (result.misses[0] == MissReason::kNone) {
      EXPECT_TRUE(IsPayloadOf(number, buffer));
      EXPECT_EQ(result.usable, 1u);
    }
    return result.misses[0];
  }
  static std::string Name(uint64_t number) { return NameBytes(RefOf(number)); }
};

TEST_F(ControlDataTest, WhatWasPutIsMatchedAndLoaded) {
  const auto client = Client();
  const std::vector<size_t> sizes = {1, 4095, 1 << 20, (1 << 20) + 1, 5 << 20};
  for (size_t i = 0; i < sizes.size(); ++i) {
    const PutOutcome outcome = PutOne(*client, MakeSegment(i, sizes[i]), i);
    EXPECT_EQ(outcome.copies, 1u) << outcome.status.ToString();
    EXPECT_FALSE(outcome.was_there);
  }
  EXPECT_TRUE(PutOne(*client, MakeSegment(0, 1), 0).was_there);
  std::vector<SegmentRef> refs;
  for (size_t i = 0; i <= sizes.size(); ++i) refs.push_back(RefOf(i));
  const MatchResult match = client->Match(refs, seconds(10));
  EXPECT_EQ(match.usable, sizes.size());
  EXPECT_EQ(match.segments[4].payload_bytes, sizes[4]);
  EXPECT_EQ(match.segments[5].miss, MissReason::kNeverStored);
  for (size_t i = 0; i < sizes.size(); ++i) {
    EXPECT_EQ(GetOne(*client, i, sizes[i]), MissReason::kNone) << i;
  }
  EXPECT_EQ(GetOne(*client, 5, 10), MissReason::kNeverStored);
  EXPECT_EQ(GetOne(*client, 4, 10), MissReason::kLayoutDiffers) << "another length";
  EXPECT_EQ(client->Nodes().at(0).id, "s1");
}

// What was put over one door is read over the other; two doors, one store.
TEST_F(ControlDataTest, BothDoorsLeadToTheSameStore) {
  StopNode();
  config_.shards = 1;
  StartNode();
  const auto tcp =
      *StoreClient::Create({.seeds = {*io::Endpoint::Parse(node_->data_address())}, .copies = 1});
  const auto grpc = Client();
  for (uint64_t i = 0; i < 20; ++i) {
    EXPECT_EQ(PutOne(i % 2 == 0 ? *tcp : *grpc, MakeSegment(i, 3000), i).copies, 1u);
  }
  for (uint64_t i = 0; i < 20; ++i) {
    EXPECT_EQ(GetOne(*tcp, i, 3000), MissReason::kNone);
    EXPECT_EQ(GetOne(*grpc, i, 3000), MissReason::kNone);
  }
}

TEST_F(ControlDataTest, ASegmentTooLargeIsRefusedAlone) {
  const auto client = Client();
  std::vector<TestSegment> segments = {MakeSegment(1, 1000), MakeSegment(2, 9 << 20),
                                       MakeSegment(3, 1000)};
  std::vector<PutRequest> requests;
  for (size_t i = 0; i < segments.size(); ++i) {
    requests.push_back({.ref = RefOf(i + 1),
                        .tokens = segments[i].header.tokens,
                        .payload = segments[i].payload,
                        .layer_offsets = {}});
  }
  const auto outcomes = client->Put(requests, segments[0].header.layout, seconds(10));
  EXPECT_EQ(outcomes[0].copies, 1u);
  EXPECT_EQ(outcomes[1].copies, 0u);
  EXPECT_EQ(outcomes[1].status.code(), StatusCode::kInvalid);
  EXPECT_EQ(outcomes[2].copies, 1u);
}

TEST_F(ControlDataTest, ANodeThatIsGoneIsAMissByTheDeadline) {
  const auto client = Client();
  EXPECT_EQ(PutOne(*client, MakeSegment(1, 1000), 1).copies, 1u);
  StopNode();
  EXPECT_EQ(GetOne(*client, 1, 1000), MissReason::kLostNode);
  EXPECT_FALSE(PutOne(*client, MakeSegment(1, 1000), 1).status.ok());
  StartNode();
  EXPECT_TRUE(Eventually([&] { return PutOne(*client, MakeSegment(1, 1000), 1).copies == 1; }));
  EXPECT_EQ(GetOne(*client, 1, 1000), MissReason::kNone);
}

TEST_F(ControlDataTest, ACallWithoutADeadlineIsRefused) {
  auto stub = rpc::StoreData::NewStub(Channel());
  grpc::ClientContext context;
  rpc::MatchSegmentsReply reply;
  EXPECT_EQ(stub->Match(&context, {}, &reply).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(ControlDataTest, MalformedRequestsAreRefusedWithAReason) {
  auto stub = rpc::StoreData::NewStub(Channel());
  rpc::MatchSegmentsRequest match;
  match.add_names("short");
  rpc::MatchSegmentsReply match_reply;
  grpc::ClientContext a;
  SetDeadline(&a);
  EXPECT_EQ(stub->Match(&a, match, &match_reply).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  rpc::GetSegmentsRequest get;
  get.add_items()->set_name(std::string(49, 'x'));
  rpc::GetPiece piece;
  grpc::ClientContext b;
  SetDeadline(&b);
  const auto reader = stub->Get(&b, get);
  EXPECT_FALSE(reader->Read(&piece));
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  rpc::PutSegmentsReply put_reply;
  grpc::ClientContext c;
  SetDeadline(&c);
  const auto writer = stub->Put(&c, &put_reply);
  rpc::PutPiece chunk;
  chunk.set_chunk("before any header");
  writer->Write(chunk);
  writer->WritesDone();
  EXPECT_EQ(writer->Finish().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(ControlDataTest, RangesComeAsAskedFor) {
  const auto client = Client();
  const TestSegment segment = MakeSegment(1, 3 << 20);
  EXPECT_EQ(PutOne(*client, segment, 1).copies, 1u);
  auto stub = rpc::StoreData::NewStub(Channel());
  rpc::GetSegmentsRequest get;
  const auto item = [&](uint64_t offset, uint64_t length) {
    rpc::GetSegment* item = get.add_items();
    item->set_name(Name(1));
    item->set_offset(offset);
    item->set_length(length);
  };
  item(100, 1'500'000);
  item(3 << 20, 0);
  item(0, (3 << 20) + 1);
  grpc::ClientContext context;
  SetDeadline(&context);
  const auto reader = stub->Get(&context, get);
  rpc::GetPiece piece;
  std::string got;
  std::vector<uint32_t> misses(3);
  while (reader->Read(&piece)) {
    misses[piece.index()] = piece.miss();
    if (piece.index() != 0) continue;
    EXPECT_EQ(piece.offset(), 100 + got.size());
    EXPECT_EQ(piece.header().empty(), !got.empty());
    got += piece.chunk();
    EXPECT_EQ(piece.last(), got.size() == 1'500'000);
  }
  EXPECT_TRUE(reader->Finish().ok());
  EXPECT_EQ(got, AsString(ByteSpan(segment.payload).subspan(100, 1'500'000)));
  EXPECT_EQ(misses[1], 0u) << "nothing from the end on";
  EXPECT_EQ(misses[2], static_cast<uint32_t>(MissReason::kLayoutDiffers));
}

TEST_F(ControlDataTest, TheClientLoadsRanges) {
  const auto client = Client();
  const TestSegment segment = MakeSegment(1, 3 << 20);
  PutOne(*client, segment, 1);
  Bytes buffer(3 << 20);
  const auto get = [&](uint64_t offset, size_t length) {
    const GetRequest request{RefOf(1), segment.header.tokens, MutableByteSpan(buffer).first(length),
                             offset};
    const GetResult result = client->Get({&request, 1}, segment.header.layout, seconds(10));
    EXPECT_EQ(result.bytes, length * result.usable);
    return result.misses[0];
  };
  for (const auto& [offset, length] : std::vector<std::pair<uint64_t, size_t>>{
           {0, 1}, {(3 << 20) - 1, 1}, {100, 1'500'000}, {0, 3 << 20}}) {
    EXPECT_EQ(get(offset, length), MissReason::kNone) << offset;
    EXPECT_TRUE(std::ranges::equal(ByteSpan(buffer).first(length),
                                   ByteSpan(segment.payload).subspan(offset, length)));
  }
  EXPECT_EQ(get(1, 3 << 20), MissReason::kLayoutDiffers);
  EXPECT_EQ(get((3 << 20) + 1, 1), MissReason::kLayoutDiffers);
}

TEST_F(ControlDataTest, TheClientsLeaseKeepsWhatWasMatchedUntilItIsReleased) {
  const auto client = Client();
  std::vector<SegmentRef> refs;
  for (uint64_t i = 0; i < 10; ++i) {
    PutOne(*client, MakeSegment(i, 1000), i);
    refs.push_back(RefOf(i));
  }
  EXPECT_FALSE(client->Match(refs, seconds(10)).lease.held());
  MatchResult match = client->Match(refs, seconds(10), {.lease = seconds(60)});
  EXPECT_EQ(match.usable, 10u);
  EXPECT_TRUE(match.lease.held());
  EXPECT_EQ(Pinned(), 10u);
  match.lease.Release();
  EXPECT_TRUE(Eventually([&] { return Pinned() == 0; }));
  const SegmentRef absent = RefOf(11);
  EXPECT_FALSE(client->Match({&absent, 1}, seconds(10), {.lease = seconds(60)}).lease.held());
}

TEST_F(ControlDataTest, ALeaseReleasedJustBeforeItsClientsEndGoesBack) {
  auto client = Client();
  PutOne(*client, MakeSegment(1, 1000), 1);
  const SegmentRef ref = RefOf(1);
  MatchResult first = client->Match({&ref, 1}, seconds(10), {.lease = seconds(60)});
  MatchResult second = client->Match({&ref, 1}, seconds(10), {.lease = seconds(60)});
  first.lease.Release();
  EXPECT_EQ(Pinned(), 1u);
  second.lease.Release();
  client.reset();
  EXPECT_TRUE(Eventually([&] { return Pinned() == 0; }));
}

TEST_F(ControlDataTest, ALeaseMayOutliveItsClientAndItsNode) {
  auto client = Client();
  PutOne(*client, MakeSegment(1, 1000), 1);
  const SegmentRef ref = RefOf(1);
  MatchResult first = client->Match({&ref, 1}, seconds(10), {.lease = seconds(60)});
  MatchResult second = client->Match({&ref, 1}, seconds(10), {.lease = seconds(60)});
  StopNode();
  first.lease.Release();
  client.reset();
  second.lease.Release();
  EXPECT_FALSE(second.lease.held());
}

TEST_F(ControlDataTest, WhoGoesAwayLeavesNothingOpen) {
  auto stub = rpc::StoreData::NewStub(Channel());
  {
    grpc::ClientContext context;
    SetDeadline(&context);
    rpc::PutSegmentsReply reply;
    const auto writer = stub->Put(&context, &reply);
    rpc::PutPiece piece;
    piece.set_header(std::string(AsString(MakeSegment(1, 100'000).encoded_header)));
    writer->Write(piece);
    piece.set_chunk(std::string(1000, 'x'));
    writer->Write(piece);
    EXPECT_TRUE(Eventually([&] { return Attempts() == 1; }));
    context.TryCancel();
    (void)writer->Finish();
  }
  EXPECT_TRUE(Eventually([&] { return Attempts() == 0; }));
  const auto client = Client();
  for (uint64_t i = 0; i < 3; ++i) PutOne(*client, MakeSegment(i, 4 << 20), i);
  {
    grpc::ClientContext context;
    SetDeadline(&context);
    rpc::GetSegmentsRequest get;
    for (uint64_t i = 0; i < 3; ++i) get.add_items()->set_name(Name(i));
    const auto reader = stub->Get(&context, get);
    reader->WaitForInitialMetadata();
    EXPECT_TRUE(Eventually([&] { return Pinned() == 1; })) << "a reader that stalls pins one";
    context.TryCancel();
    (void)reader->Finish();
  }
  EXPECT_TRUE(Eventually([&] { return Pinned() == 0; }));
}

TEST_F(ControlDataTest, OneCallTooManyIsBusyAtOnce) {
  auto stub = rpc::StoreData::NewStub(Channel());
  std::vector<std::unique_ptr<grpc::ClientContext>> contexts;
  std::vector<std::unique_ptr<grpc::ClientWriter<rpc::PutPiece>>> streams;
  std::vector<rpc::PutSegmentsReply> replies(StoreData::kMaxCalls);
  for (auto& reply : replies) {
    contexts.push_back(std::make_unique<grpc::ClientContext>());
    SetDeadline(contexts.back().get());
    streams.push_back(stub->Put(contexts.back().get(), &reply));
  }
  ControlMetrics metrics(&node_->metrics());
  EXPECT_TRUE(Eventually([&] { return metrics.data_calls.value() == StoreData::kMaxCalls; }));
  rpc::MatchSegmentsReply reply;
  grpc::ClientContext context;
  SetDeadline(&context);
  EXPECT_EQ(stub->Match(&context, {}, &reply).error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  for (auto& one : contexts) one->TryCancel();
  for (auto& stream : streams) (void)stream->Finish();
  EXPECT_TRUE(Eventually([&] { return metrics.data_calls.value() == 0; }));
}

TEST_F(ControlDataTest, ALeaseKeepsWhatWasMatchedUntilItIsReleased) {
  const auto client = Client();
  for (uint64_t i = 0; i < 10; ++i) PutOne(*client, MakeSegment(i, 1000), i);
  auto stub = rpc::StoreData::NewStub(Channel());
  rpc::MatchSegmentsRequest match;
  for (uint64_t i = 0; i < 10; ++i) match.add_names(Name(i));
  match.set_lease_ms(60'000);
  rpc::MatchSegmentsReply reply;
  grpc::ClientContext context;
  SetDeadline(&context);
  ASSERT_TRUE(stub->Match(&context, match, &reply).ok());
  ASSERT_GE(reply.leases_size(), 1);
  EXPECT_EQ(Pinned(), 10u);
  rpc::ReleaseLeasesRequest release;
  *release.mutable_leases() = reply.leases();
  rpc::ReleaseLeasesReply released;
  grpc::ClientContext again;
  SetDeadline(&again);
  ASSERT_TRUE(stub->Release(&again, release, &released).ok());
  EXPECT_EQ(Pinned(), 0u);
}

// A node whose memory went bad, or that lies: what it sends is never taken for the segment.
TEST(PieceReceiver, WrongBytesAreAMissAndAReason) {
  const TestSegment segment = MakeSegment(1, 3000);
  Bytes buffer(3000);
  const GetRequest request{.ref = RefOf(1), .tokens = segment.header.tokens, .buffer = buffer};
  PieceReceiver receiver(segment.header.layout);
  rpc::GetPiece whole;
  whole.set_header(std::string(AsString(segment.encoded_header)));
  whole.set_chunk(std::string(AsString(segment.payload)));
  whole.set_last(true);
  SegmentHeader header;
  const auto verdict = [&](const rpc::GetPiece& piece, const GetRequest& request) {
    EXPECT_TRUE(*receiver.Take(piece, request));
    return receiver.Verify(request, &header);
  };
  EXPECT_EQ(verdict(whole, request), MissReason::kNone);
  EXPECT_TRUE(IsPayloadOf(1, buffer));
  rpc::GetPiece bad = whole;
  (*bad.mutable_chunk())[1500] ^= 1;
  EXPECT_EQ(verdict(bad, request), MissReason::kCorrupt);
  bad = whole;
  (*bad.mutable_header())[50] ^= 1;
  EXPECT_EQ(verdict(bad, request), MissReason::kCorrupt);
  bad = whole;
  bad.mutable_chunk()->resize(2999);
  EXPECT_EQ(verdict(bad, request), MissReason::kLayoutDiffers);
  bad = whole;
  bad.mutable_chunk()->resize(9000);
  EXPECT_EQ(verdict(bad, request), MissReason::kLayoutDiffers);
  GetRequest other = request;
  other.ref = RefOf(2);
  EXPECT_EQ(verdict(whole, other), MissReason::kOtherSalt);
  GetRequest range = request;
  range.offset = 1000;
  range.buffer = range.buffer.first(500);
  rpc::GetPiece part = whole;
  part.set_offset(1000);
  part.mutable_chunk()->resize(500);
  EXPECT_EQ(verdict(part, range), MissReason::kNone);
  part.mutable_chunk()->resize(501);
  EXPECT_EQ(verdict(part, range), MissReason::kLayoutDiffers);
  part.set_offset(0);
  EXPECT_FALSE(receiver.Take(part, range).ok()) << "another range";
  rpc::GetPiece miss;
  miss.set_miss(static_cast<uint32_t>(MissReason::kEvicted));
  miss.set_last(true);
  EXPECT_EQ(verdict(miss, request), MissReason::kEvicted);
  rpc::GetPiece second = whole;
  whole.set_last(false);
  ASSERT_TRUE(receiver.Take(whole, request).ok());
  EXPECT_FALSE(receiver.Take(second, request).ok()) << "out of its order";
}

}  // namespace
}  // namespace ember::kv::testing
