// Peers that break the protocol, stall, or come in crowds. Whatever they do, an honest client is
// served beside them.
#include "tests/unit/kvstore/server_fixture.h"

namespace ember::kv::testing {
namespace {

using wire::FrameType;

class ServerAttackTest : public ServerTest {
 protected:
  Bytes Header(FrameType type, uint32_t meta_length, uint64_t payload_length) {
    const auto bytes = wire::EncodeFrameHeader({type, 5, meta_length, payload_length});
    return Bytes(bytes.begin(), bytes.end());
  }
  // Sends and expects an error frame whose message contains `text`, then the close.
  void ExpectRefused(RawClient& client, ByteSpan bytes, StatusCode code, const std::string& text) {
    ASSERT_TRUE(client.SendBytes(bytes));
    const std::optional<wire::ErrorReply> error = client.ReadErrorAndClose();
    ASSERT_TRUE(error) << "no error frame, or no close after it: " << text;
    EXPECT_EQ(error->code, code);
    EXPECT_NE(error->message.find(text), std::string::npos) << error->message;
    ExpectOthersUnaffected();
  }
};
EMBER_BOTH_BACK_ENDS(ServerAttackTest);

TEST_P(ServerAttackTest, ForeignProtocolsAreToldAndClosed) {
  for (std::string text :
       {"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "X", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "\x16\x03\x01\x02", "*1\r\n$4\r\nPING\r\n"}) {
    SCOPED_TRACE(text);
    RawClient client(port_);
    ExpectRefused(client, AsBytes(text), StatusCode::kInvalid, "not an EmberKV");
    auto greeted = Client();
    ExpectRefused(*greeted, AsBytes(text), StatusCode::kInvalid, "not an EmberKV");
  }
}

TEST_P(ServerAttackTest, MalformedFramesAreToldAndClosed) {
  struct Case {
    const char* text;
    Bytes bytes;
  };
  const Bytes hello = Encode(wire::Hello{});
  Bytes flipped = Header(FrameType::kPing, 0, 0);
  flipped[20] ^= std::byte{1};
  Bytes bad_match = Header(FrameType::kMatch, 8, 0);
  bad_match.insert(bad_match.end(), 8, std::byte{0xff});
  Bytes long_match = Header(FrameType::kMatch, 9, 0);
  long_match.insert(long_match.end(), 9, std::byte{0});
  Bytes second_hello = Header(FrameType::kHello, static_cast<uint32_t>(hello.size()), 0);
  second_hello.insert(second_hello.end(), hello.begin(), hello.end());
  const Case cases[] = {
      {"checksum differs", flipped},
      {"unknown type", Header(static_cast<FrameType>(99), 0, 0)},
      {"limit", Header(FrameType::kMatch, wire::kMaxMetaBytes + 1, 0)},
      {"truncated", bad_match},
      {"left over", long_match},
      {"is not a request", second_hello},
      {"is not a request", Header(FrameType::kGetReply, 0, 0)},
      {"is not a request", Header(FrameType::kError, 0, 0)},
      {"payload on a frame", Header(FrameType::kPing, 0, 1)},
      // C37: 1 TiB, refused before a byte of it is read.
      {"payload of 1099511627776 bytes", Header(FrameType::kWrite, 24, 1ull << 40)},
      {"truncated", Header(FrameType::kWrite, 0, 0)},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.text);
    auto client = Client();
    ExpectRefused(*client, c.bytes, StatusCode::kInvalid, c.text);
  }
  EXPECT_EQ(metrics_.protocol_errors.value(), std::size(cases));
}

TEST_P(ServerAttackTest, TheFirstFrameMustBeAnAcceptableHello) {
  auto refused = [&](const wire::Hello& hello, StatusCode code, const std::string& text) {
    RawClient client(port_);
    const Bytes meta = Encode(hello);
    Bytes bytes = Header(FrameType::kHello, static_cast<uint32_t>(meta.size()), 0);
    bytes.insert(bytes.end(), meta.begin(), meta.end());
    ExpectRefused(client, bytes, code, text);
  };
  refused({.min_version = 3, .max_version = 9}, StatusCode::kMismatch, "version 2");
  refused({.expected_node_id = "other"}, StatusCode::kMismatch, "this node is s1");
  RawClient impolite(port_);
  ExpectRefused(impolite, Header(FrameType::kPing, 0, 0), StatusCode::kInvalid, "hello");
  RawClient large(port_);
  ExpectRefused(large, Header(FrameType::kHello, wire::kMaxHelloBytes + 1, 0), StatusCode::kInvalid,
                "limit");
}

// A sentence of valid frames, cut at each byte: the node forgets the connection and all it held.
TEST_P(ServerAttackTest, AStreamCutAtAnyByteLeavesNothing) {
  const TestSegment segment = MakeSegment(1, 300);
  const Bytes reserve = Encode(wire::Reserve{{segment.encoded_header}});
  const Bytes get = Encode(wire::Get{{{KeyOf(kWitness), 0, 0}}});
  Bytes sentence;
  auto append = [&](FrameType type, ByteSpan meta, ByteSpan payload) {
    const Bytes header = Header(type, static_cast<uint32_t>(meta.size()), payload.size());
    for (ByteSpan part : {ByteSpan(header), meta, payload}) {
      sentence.insert(sentence.end(), part.begin(), part.end());
    }
  };
  append(FrameType::kHello, Encode(wire::Hello{.client_name = "cut"}), {});
  append(FrameType::kReserve, reserve, {});
  append(FrameType::kWrite, Encode(wire::Write{{1, 2}, 0}), segment.payload);
  append(FrameType::kGet, get, {});
  const uint64_t used = OnEngine([&](ShardEngine&) { return arena_->used(); });
  const uint64_t accepted = metrics_.accepted.value();
  for (size_t cut = 0; cut <= sentence.size(); ++cut) {
    RawClient client(port_);
    client.SendBytes(ByteSpan(sentence).first(cut));
    if (cut % 2 == 0) client.CloseAbruptly();
  }
  const uint64_t all = accepted + sentence.size() + 1;
  EXPECT_TRUE(Eventually([&] { return metrics_.accepted.value() == all; }));
  EXPECT_TRUE(Eventually([&] { return metrics_.connections.value() == 1; }));
  EXPECT_EQ(OnEngine([](auto& e) { return e.attempts(); }), 0u);
  EXPECT_EQ(OnEngine([&](ShardEngine&) { return arena_->used(); }), used);
  ExpectOthersUnaffected();
}

TEST_P(ServerAttackTest, RandomBytesNeverDisturbOthers) {
  SeededRandom random(11);
  for (int round = 0; round < 60; ++round) {
    auto client = Client();
    Bytes noise = Header(static_cast<FrameType>(1 + random.Next() % 20), random.Next() % 200,
                         random.Next() % 5000);
    for (uint64_t i = random.Next() % 600; i > 0; --i) {
      noise.push_back(static_cast<std::byte>(random.Next()));
    }
    client->SendBytes(noise);
    if (round % 10 == 0) ExpectOthersUnaffected();
  }
}

TEST_P(ServerAttackTest, OverTheLimitOfConnectionsTheAnswerIsBusyAtOnce) {
  Start({.server = {.max_connections = 4}});
  std::vector<std::unique_ptr<RawClient>> clients;
  for (int i = 0; i < 3; ++i) clients.push_back(Client());
  for (int i = 0; i < 3; ++i) {
    RawClient extra(port_);
    const std::optional<wire::ErrorReply> error = extra.ReadErrorAndClose();
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code, StatusCode::kBusy);
  }
  EXPECT_TRUE(witness_->Ping());
  EXPECT_TRUE(clients[0]->Ping());
  clients.pop_back();
  EXPECT_TRUE(Eventually([&] { return metrics_.connections.value() == 3; }));
  EXPECT_TRUE(Client()->Ping());
  EXPECT_EQ(metrics_.refused.value(), 3u);
}

TEST_P(ServerAttackTest, WhoDoesNotSayHelloInTimeIsClosed) {
  Start({.server = {.hello_timeout = milliseconds(100)}});
  RawClient silent(port_);
  RawClient half(port_);
  half.SendBytes(ByteSpan(Header(FrameType::kHello, 50, 0)).first(30));
  EXPECT_TRUE(silent.WaitForClose());
  EXPECT_TRUE(half.WaitForClose());
  ExpectOthersUnaffected();
  EXPECT_EQ(metrics_.timeouts.value(), 2u);
}

TEST_P(ServerAttackTest, WhoStopsInTheMiddleOfAFrameIsClosed) {
  Start({.server = {.stall_timeout = milliseconds(100)}});
  auto header = Client();
  header->SendBytes(ByteSpan(Header(FrameType::kPing, 0, 0)).first(39));
  auto meta = Client();
  meta->SendBytes(Header(FrameType::kMatch, wire::kMaxMetaBytes, 0));
  auto payload = Client();
  const TestSegment segment = MakeSegment(1, 1 << 20);
  const wire::ReserveEntry entry = payload->ReserveOne(segment);
  payload->SendBytes(Header(FrameType::kWrite, 24, 1 << 20));
  payload->SendBytes(Encode(wire::Write{entry.token, 0}));
  payload->SendBytes(ByteSpan(segment.payload).first(1000));
  EXPECT_TRUE(header->WaitForClose());
  EXPECT_TRUE(meta->WaitForClose());
  EXPECT_TRUE(payload->WaitForClose());
  EXPECT_TRUE(Eventually([&] { return OnEngine([](auto& e) { return e.attempts(); }) == 0; }));
  ExpectOthersUnaffected();
}

// A trickle makes progress for ever; a whole frame has its limit too.
TEST_P(ServerAttackTest, AFrameThatTricklesInIsClosed) {
  Start({.server = {.stall_timeout = seconds(10), .frame_timeout = milliseconds(200)}});
  auto client = Client();
  client->SendBytes(Header(FrameType::kMatch, 1000, 0));
  const std::byte zero{};
  EXPECT_TRUE(Eventually([&] { return !client->SendBytes({&zero, 1}); }));
  ExpectOthersUnaffected();
}

// C1: a reader that takes nothing holds little, not for ever, and never gets reused memory.
TEST_P(ServerAttackTest, ASlowReaderHoldsLittleAndIsClosed) {
  Start({.memory = 16 << 20, .server = {.stall_timeout = milliseconds(200)}});
  for (uint64_t i = 0; i < 10; ++i)
    ASSERT_EQ(witness_->Put(MakeSegment(i, 1 << 20)), StatusCode::kOk);
  RawClient slow(port_, /*receive_buffer=*/4096);
  ASSERT_TRUE(slow.Hello());
  wire::Get get;
  for (int i = 0; i < 1000; ++i) get.items.push_back({KeyOf(i % 10), 0, 0});
  ASSERT_TRUE(slow.SendFrame(FrameType::kGet, 1, Encode(get)));
  EXPECT_TRUE(Eventually([&] { return metrics_.timeouts.value() == 1; }));
  EXPECT_LE(OnEngine([](auto& e) { return e.pinned(); }), 2u);
  // What did arrive before the cut is right.
  std::optional<RawFrame> frame;
  for (uint64_t i = 0; (frame = slow.ReadFrame()); ++i) {
    ASSERT_TRUE(IsPayloadOf(i % 10, frame->payload)) << i;
  }
  EXPECT_TRUE(Eventually([&] { return OnEngine([](auto& e) { return e.pinned(); }) == 0; }));
  ExpectOthersUnaffected();
}

// C1: memory on its way to a slow reader isn't reused, whatever is put meanwhile.
TEST_P(ServerAttackTest, MemoryInFlightIsNotReused) {
  constexpr size_t kSize = 9 << 20;  // more than socket buffers take
  Start({.memory = 16 << 20});
  ASSERT_EQ(witness_->Put(MakeSegment(1, kSize)), StatusCode::kOk);
  RawClient slow(port_, /*receive_buffer=*/64 << 10);
  ASSERT_TRUE(slow.Hello());
  ASSERT_TRUE(slow.SendFrame(FrameType::kGet, 1, Encode(wire::Get{{{KeyOf(1), 0, 0}}})));
  ASSERT_TRUE(Eventually([&] { return engine_metrics_.pinned_segments.value() == 1; }));
  for (uint64_t i = 100; i < 140; ++i) {
    ASSERT_EQ(witness_->Put(MakeSegment(i, 1 << 20)), StatusCode::kOk);
  }
  const std::optional<RawFrame> frame = slow.ReadFrame();
  ASSERT_TRUE(frame);
  EXPECT_EQ(frame->payload.size(), kSize);
  EXPECT_TRUE(IsPayloadOf(1, frame->payload));
}

TEST_P(ServerAttackTest, LargeMessagesShareABudget) {
  Start({.server = {.max_large_message_bytes = 6 << 20}});
  auto first = Client();
  first->SendBytes(Header(FrameType::kReserve, 4 << 20, 0));
  const Bytes some(100'000);
  first->SendBytes(some);  // so that it is being read
  ASSERT_TRUE(Eventually([&] {
    auto second = Client();
    second->SendBytes(Header(FrameType::kReserve, 4 << 20, 0));
    second->SendBytes(some);
    const std::optional<wire::ErrorReply> error = second->ReadErrorAndClose();
    return error && error->code == StatusCode::kBusy;
  }));
  first.reset();
  // What was charged is given back: far more than the budget goes through, one after the other.
  for (int i = 0; i < 60; ++i) {
    const std::vector<uint64_t> numbers(wire::kMaxKeysPerBatch, 3);
    ASSERT_EQ(witness_->Match(numbers).entries.size(), numbers.size());
  }
  ExpectOthersUnaffected();
}

}  // namespace
}  // namespace ember::kv::testing
