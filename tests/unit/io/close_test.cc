// Close() ends what is pending, soon and with kCancelled.

#include <algorithm>

#include "tests/unit/io/loop_fixture.h"

namespace ember::io {
namespace {

class CloseTest : public LoopTest {
 protected:
  static Task<void> Accept(Listener& listener, Status* out) {
    *out = (co_await listener.Accept()).status();
  }
};

TEST_P(CloseTest, EndsAPendingRead) {
  RunTask([&]() -> Task<void> {
    StreamPair pair = co_await Connected();
    Bytes buffer(1 << 20);
    Status read;
    Gate gate;
    gate.Spawn(Read(*pair.server, buffer, &read));
    co_await loop().Sleep(milliseconds(2));
    EXPECT_EQ(gate.running(), 1u);
    pair.server->Close();
    pair.server->Close();
    co_await gate.Close();
    EXPECT_EQ(read.code(), StatusCode::kCancelled) << read.ToString();
    EXPECT_EQ(*co_await pair.client->ReadSome(buffer), 0u);  // the peer sees the end
  });
}

// Part of the buffer has been filled already, and more arrives while the read ends.
TEST_P(CloseTest, EndsAHalfDoneReadAndLeavesItsBufferAlone) {
  RunTask([&]() -> Task<void> {
    StreamPair pair = co_await Connected();
    const Bytes sent = Pattern(100000);
    Status written;
    Status read;
    Gate gate;
    {
      Bytes buffer(1 << 20);
      gate.Spawn(Read(*pair.server, buffer, &read));
      co_await Write(*pair.client, sent, &written);
      co_await loop().Sleep(milliseconds(2));
      gate.Spawn(Write(*pair.client, sent, &written));
      pair.server->Close();
      co_await gate.Close();
      EXPECT_EQ(read.code(), StatusCode::kCancelled) << read.ToString();
      std::fill(buffer.begin(), buffer.end(), std::byte{0x5a});
      co_await loop().Sleep(milliseconds(5));
      EXPECT_TRUE(std::all_of(buffer.begin(), buffer.end(),
                              [](std::byte b) { return b == std::byte{0x5a}; }));
    }
  });
}

TEST_P(CloseTest, EndsAPendingWrite) {
  RunTask([&]() -> Task<void> {
    StreamPair pair = co_await Connected();
    const Bytes bytes = Pattern(48 << 20);
    Status written;
    Gate gate;
    gate.Spawn(Write(*pair.client, bytes, &written));
    co_await loop().Sleep(milliseconds(2));
    EXPECT_EQ(gate.running(), 1u);
    pair.client->Close();
    co_await gate.Close();
    EXPECT_EQ(written.code(), StatusCode::kCancelled) << written.ToString();
  });
}

TEST_P(CloseTest, EndsAReadAndAWriteTogether) {
  RunTask([&]() -> Task<void> {
    StreamPair pair = co_await Connected();
    const Bytes bytes = Pattern(48 << 20);
    Bytes buffer(10);
    Status written;
    Status read;
    Gate gate;
    gate.Spawn(Write(*pair.client, bytes, &written));
    gate.Spawn(Read(*pair.client, buffer, &read));
    pair.client->Close();  // before the operations have reached the kernel
    co_await gate.Close();
    EXPECT_EQ(written.code(), StatusCode::kCancelled) << written.ToString();
    EXPECT_EQ(read.code(), StatusCode::kCancelled) << read.ToString();
  });
}

TEST_P(CloseTest, EndsAPendingAccept) {
  RunTask([&]() -> Task<void> {
    ListenerPtr listener = Must(loop().Listen({"127.0.0.1", 0}));
    Status accepted;
    Gate gate;
    gate.Spawn(Accept(*listener, &accepted));
    co_await loop().Sleep(milliseconds(2));
    EXPECT_EQ(gate.running(), 1u);
    listener->Close();
    co_await gate.Close();
    EXPECT_EQ(accepted.code(), StatusCode::kCancelled) << accepted.ToString();
    EXPECT_EQ((co_await listener->Accept()).status().code(), StatusCode::kCancelled);
  });
}

TEST_P(CloseTest, LaterOperationsFailAtOnce) {
  RunTask([&]() -> Task<void> {
    StreamPair pair = co_await Connected();
    pair.client->Close();
    Bytes buffer(10);
    const ByteSpan bytes = buffer;
    EXPECT_EQ((co_await pair.client->ReadSome(buffer)).status().code(), StatusCode::kCancelled);
    EXPECT_EQ((co_await pair.client->WriteAll({&bytes, 1})).code(), StatusCode::kCancelled);
  });
}

// Frames come and go at the same addresses; a cancellation must never hit a later operation.
TEST_P(CloseTest, ManyClosesHitOnlyTheirOwnOperations) {
  RunTask([&]() -> Task<void> {
    StreamPair witness = co_await Connected();
    Bytes buffer(8);
    for (int i = 0; i < 300; ++i) {
      StreamPair pair = co_await Connected();
      const Bytes sent = Pattern(8, i);
      Bytes other(8);
      Status written;
      Status read;
      Status closed;
      Gate gate;
      gate.Spawn(Read(*pair.server, other, &closed));
      pair.server->Close();
      gate.Spawn(Read(*witness.server, buffer, &read));
      gate.Spawn(Write(*witness.client, sent, &written));
      co_await gate.Close();
      EXPECT_EQ(closed.code(), StatusCode::kCancelled);
      EXPECT_TRUE(read.ok() && written.ok()) << read.ToString() << written.ToString();
      EXPECT_TRUE(sent == buffer);
    }
  });
}

EMBER_EVERY_LOOP(CloseTest);

}  // namespace
}  // namespace ember::io
