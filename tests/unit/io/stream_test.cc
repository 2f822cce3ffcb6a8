// Bytes through a connection: sizes, gathered writes, back-pressure and the peer's ways of leaving.

#include <sys/socket.h>

#include <algorithm>

#include "tests/unit/io/loop_fixture.h"

namespace ember::io {
namespace {

class StreamTest : public LoopTest {
 protected:
  Task<void> EchoOnce(uint16_t port, size_t size, uint32_t seed, int* good) {
    StreamPtr stream = Must(co_await loop().Connect({"127.0.0.1", port}, seconds(10)));
    const Bytes sent = Pattern(size, seed);
    Bytes received(size);
    Status written;
    Gate gate;
    gate.Spawn(Write(*stream, sent, &written));
    Result<size_t> read = co_await ReadExactly(*stream, received);
    co_await gate.Close();
    EXPECT_TRUE(read.ok()) << read.status().ToString();
    EXPECT_TRUE(written.ok()) << written.ToString();
    EXPECT_TRUE(sent == received);
    *good += read.ok() && written.ok() && sent == received;
  }
};

TEST_P(StreamTest, EchoesEverySize) {
  RunTask([&]() -> Task<void> {
    ListenerPtr listener = Must(loop().Listen({"127.0.0.1", 0}));
    Gate gate;
    gate.Spawn(ServeEcho(gate, *listener));
    int good = 0;
    const std::vector<size_t> sizes = {0, 1, 2, 4095, 65536, 65537, 1 << 20, 8 << 20};
    for (size_t size : sizes) co_await EchoOnce(listener->port(), size, size + 1, &good);
    EXPECT_EQ(good, static_cast<int>(sizes.size()));
    listener->Close();
    co_await gate.Close();
  });
}

TEST_P(StreamTest, ServesTwoHundredConnectionsAtOnce) {
  RunTask([&]() -> Task<void> {
    ListenerPtr listener = Must(loop().Listen({"127.0.0.1", 0}));
    Gate server;
    Gate clients;
    server.Spawn(ServeEcho(server, *listener));
    int good = 0;
    for (uint32_t i = 0; i < 200; ++i) {
      clients.Spawn(EchoOnce(listener->port(), 10000 + i, i, &good));
    }
    co_await clients.Close();
    EXPECT_EQ(good, 200);
    listener->Close();
    co_await server.Close();
  });
}

TEST_P(StreamTest, GathersPartsInOrder) {
  RunTask([&]() -> Task<void> {
    StreamPair pair = co_await Connected();
    const Bytes bytes = Pattern(3 << 20);
    // The most parts allowed: empty ones, single bytes, and large ones that no socket buffer takes.
    std::vector<ByteSpan> parts;
    ByteSpan rest = bytes;
    for (size_t i = 0; i + 1 < kMaxGatherParts; ++i) {
      const size_t size = i % 3 == 0 ? 0 : i % 3 == 1 ? 1 : 100003;
      parts.push_back(rest.first(std::min(size, rest.size())));
      rest = rest.subspan(parts.back().size());
    }
    parts.push_back(rest);
    Bytes received(bytes.size());
    Status read;
    Gate gate;
    gate.Spawn(Read(*pair.server, received, &read));
    const Status written = co_await pair.client->WriteAll(parts);
    co_await gate.Close();
    EXPECT_TRUE(written.ok()) << written.ToString();
    EXPECT_TRUE(read.ok()) << read.ToString();
    EXPECT_TRUE(received == bytes);
  });
}

TEST_P(StreamTest, WritesNothingAtOnce) {
  RunTask([&]() -> Task<void> {
    StreamPair pair = co_await Connected();
    EXPECT_TRUE((co_await pair.client->WriteAll({})).ok());
    const ByteSpan empty;
    EXPECT_TRUE((co_await pair.client->WriteAll({&empty, 1})).ok());
    EXPECT_EQ(*co_await ReadExactly(*pair.client, {}), 0u);
  });
}

TEST_P(StreamTest, AWriterWaitsForASlowReader) {
  RunTask([&]() -> Task<void> {
    StreamPair pair = co_await Connected();
    const Bytes bytes = Pattern(48 << 20);  // far more than the kernel's buffers on both sides
    bool written = false;
    Gate gate;
    gate.Spawn([](Stream& stream, ByteSpan bytes, bool* written) -> Task<void> {
      *written = (co_await stream.WriteAll({&bytes, 1})).ok();
    }(*pair.client, bytes, &written));
    Bytes received(bytes.size());
    const MutableByteSpan all(received);
    constexpr size_t kFirst = 4 << 20;
    EXPECT_TRUE((co_await ReadExactly(*pair.server, all.first(kFirst))).ok());
    co_await loop().Sleep(milliseconds(20));
    EXPECT_FALSE(written);
    EXPECT_TRUE((co_await ReadExactly(*pair.server, all.subspan(kFirst))).ok());
    co_await gate.Close();
    EXPECT_TRUE(written);
    EXPECT_TRUE(received == bytes);
  });
}

// Also a test of the stack: each read ends without waiting.
TEST_P(StreamTest, ManySmallReadsStarveNobody) {
  RunTask([&]() -> Task<void> {
    StreamPair pair = co_await Connected();
    const Bytes bytes = Pattern(100000);
    Status written;
    Gate gate;
    gate.Spawn(Write(*pair.client, bytes, &written));  // at once, where buffers are large enough
    size_t reads_when_timer_fired = 0;
    Bytes received(bytes.size());
    size_t reads = 0;
    const auto timer = loop().StartTimer(loop().Now(), [&] { reads_when_timer_fired = reads + 1; });
    for (; reads < received.size(); ++reads) {
      const MutableByteSpan one = MutableByteSpan(received).subspan(reads, 1);
      const Result<size_t> n = co_await pair.server->ReadSome(one);
      EXPECT_TRUE(n.ok() && *n == 1);
      if (!n.ok()) break;
    }
    co_await gate.Close();
    EXPECT_TRUE(received == bytes);
    EXPECT_GT(reads_when_timer_fired, 0u);
    EXPECT_LT(reads_when_timer_fired, 10000u);
  });
}

TEST_P(StreamTest, ThePeerLeavesBetweenFrames) {
  RunTask([&]() -> Task<void> {
    StreamPair pair = co_await Connected();
    pair.client.reset();
    Bytes buffer(10);
    EXPECT_EQ(*co_await pair.server->ReadSome(buffer), 0u);
    EXPECT_EQ((co_await ReadExactly(*pair.server, buffer)).status().code(), StatusCode::kNotFound);
  });
}

TEST_P(StreamTest, ThePeerLeavesWithinAFrame) {
  RunTask([&]() -> Task<void> {
    StreamPair pair = co_await Connected();
    const Bytes sent = Pattern(7);
    Status written;
    co_await Write(*pair.client, sent, &written);
    Bytes buffer(10);
    Status read;
    Gate gate;
    gate.Spawn(Read(*pair.server, buffer, &read));
    pair.client.reset();
    co_await gate.Close();
    EXPECT_EQ(read.code(), StatusCode::kUnavailable);
    EXPECT_NE(read.message().find("after 7 of 10 bytes"), std::string_view::npos) << read.message();
  });
}

TEST_P(StreamTest, ThePeerLeavesWhileWeWrite) {
  RunTask([&]() -> Task<void> {
    StreamPair pair = co_await Connected();
    const Bytes bytes = Pattern(48 << 20);
    Status written;
    Gate gate;
    gate.Spawn(Write(*pair.client, bytes, &written));
    Bytes some(1000);
    EXPECT_TRUE((co_await ReadExactly(*pair.server, some)).ok());
    pair.server.reset();  // with unread bytes: a reset for the writer
    co_await gate.Close();
    EXPECT_EQ(written.code(), StatusCode::kUnavailable) << written.ToString();
    // And once more, on a connection known to be broken.
    co_await Write(*pair.client, bytes, &written);
    EXPECT_EQ(written.code(), StatusCode::kUnavailable) << written.ToString();
  });
}

TEST_P(StreamTest, NamesThePeer) {
  RunTask([&]() -> Task<void> {
    StreamPair pair = co_await Connected();
    EXPECT_TRUE(pair.client->peer_name().starts_with("127.0.0.1:"));
    EXPECT_TRUE(pair.server->peer_name().starts_with("127.0.0.1:"));
    EXPECT_NE(pair.client->peer_name(), pair.server->peer_name());
  });
}

EMBER_EVERY_LOOP(StreamTest);

}  // namespace
}  // namespace ember::io
