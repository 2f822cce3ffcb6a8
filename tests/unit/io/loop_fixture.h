// LoopTest: runs a coroutine on a loop of each kind, in the test's own thread.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <iterator>
#include <memory>
#include <string>

#include "client/io/gate.h"
#include "client/io/loop.h"
#include "tests/unit/io/loop_factory.h"

namespace ember::io {

// The value, or the end of the test program with the reason.
template <typename T>
T Must(Result<T> result) {
  if (!result.ok()) std::fprintf(stderr, "%s\n", result.status().ToString().c_str());
  EMBER_CHECK(result.ok(), "a test's set-up failed");
  return *std::move(result);
}

inline Bytes Pattern(size_t size, uint32_t seed = 1) {
  Bytes bytes(size);
  uint32_t state = seed * 2654435761u + 1;
  for (std::byte& b : bytes) {
    state = state * 1664525u + 1013904223u;
    b = static_cast<std::byte>(state >> 24);
  }
  return bytes;
}

inline size_t OpenDescriptors() {
  return static_cast<size_t>(
      std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {}));
}

using StreamPtr = std::unique_ptr<Stream>;
using ListenerPtr = std::unique_ptr<Listener>;

// Two ends of one connection over loopback.
struct StreamPair {
  StreamPtr client;
  StreamPtr server;
};

class LoopTest : public testing::TestWithParam<LoopFactory> {
 protected:
  static constexpr Duration kPatience = seconds(30);

  void SetUp() override {
    descriptors_ = OpenDescriptors();
    Result<std::unique_ptr<Loop>> loop = GetParam().make();
    if (!loop.ok() && GetParam().may_be_refused) GTEST_SKIP() << loop.status().ToString();
    loop_ = Must(std::move(loop));
  }
  void TearDown() override {
    loop_.reset();
    EXPECT_EQ(OpenDescriptors(), descriptors_) << "descriptors leaked";
  }

  // Runs the coroutine to its end, which must come before kPatience, then stops the loop.
  void RunTask(std::function<Task<void>()> body) {
    Gate gate;
    bool ended = false;
    loop_->Post([&] { gate.Spawn(Then(body, &ended)); });
    const auto watchdog =
        loop_->StartTimer(loop_->Now() + kPatience, [] { EMBER_CHECK(false, "the test hangs"); });
    loop_->Run();
    EXPECT_TRUE(ended);
  }

  Loop& loop() { return *loop_; }

  Task<StreamPair> Connected() {
    ListenerPtr listener = Must(loop().Listen({"127.0.0.1", 0}));
    StreamPair pair;
    Gate gate;
    gate.Spawn(AcceptOne(*listener, &pair.server));
    pair.client = Must(co_await loop().Connect({"127.0.0.1", listener->port()}, seconds(5)));
    co_await gate.Close();
    co_return pair;
  }

  static Task<void> AcceptOne(Listener& listener, StreamPtr* out) {
    *out = Must(co_await listener.Accept());
  }
  static Task<void> Write(Stream& stream, ByteSpan bytes, Status* out) {
    *out = co_await stream.WriteAll({&bytes, 1});
  }
  static Task<void> Read(Stream& stream, MutableByteSpan buffer, Status* out) {
    *out = (co_await ReadExactly(stream, buffer)).status();
  }
  // Sends back what arrives until the other side closes.
  static Task<void> Echo(StreamPtr stream) {
    Bytes buffer(64 << 10);
    for (;;) {
      Result<size_t> n = co_await stream->ReadSome(buffer);
      if (!n.ok() || *n == 0) co_return;
      ByteSpan part = ByteSpan(buffer).first(*n);
      if (!(co_await stream->WriteAll({&part, 1})).ok()) co_return;
    }
  }
  static Task<void> ServeEcho(Gate& gate, Listener& listener) {
    for (;;) {
      Result<StreamPtr> stream = co_await listener.Accept();
      if (!stream.ok()) co_return;
      gate.Spawn(Echo(*std::move(stream)));
    }
  }

  std::unique_ptr<Loop> loop_;

 private:
  Task<void> Then(std::function<Task<void>()> body, bool* ended) {
    co_await body();
    *ended = true;
    loop_->Stop();
  }

  size_t descriptors_ = 0;
};

#define EMBER_EVERY_LOOP(Suite)                                              \
  INSTANTIATE_TEST_SUITE_P(Loops, Suite, testing::ValuesIn(LoopFactories()), \
                           [](const auto& info) { return info.param.name; })

}  // namespace ember::io
