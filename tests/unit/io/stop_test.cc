// Stop, and the order in which a loop and what it made may die.

#include "tests/unit/io/loop_fixture.h"

namespace ember::io {
namespace {

class StopTest : public LoopTest {
 protected:
  Task<void> SleepFor(Duration duration) { co_await loop().Sleep(duration); }
  Task<void> Pending(Gate& gate, Status* read, Status* write, Status* accept) {
    StreamPair pair = co_await Connected();
    ListenerPtr listener = Must(loop().Listen({"127.0.0.1", 0}));
    const Bytes bytes = Pattern(48 << 20);
    Bytes buffer(100);
    Gate inner;
    inner.Spawn(Read(*pair.client, buffer, read));
    inner.Spawn(Write(*pair.client, bytes, write));
    inner.Spawn([](Listener& listener, Status* out) -> Task<void> {
      *out = (co_await listener.Accept()).status();
    }(*listener, accept));
    gate.Spawn(SleepFor(seconds(1000)));
    const auto timer = loop().StartTimer(loop().Now() + milliseconds(3), [this] { loop().Stop(); });
    co_await inner.Close();
  }
};

TEST_P(StopTest, EndsEverythingPending) {
  Status read;
  Status write;
  Status accept;
  Gate gate;
  loop().Post([&] { gate.Spawn(Pending(gate, &read, &write, &accept)); });
  loop().Run();
  EXPECT_EQ(gate.running(), 0u);
  EXPECT_EQ(read.code(), StatusCode::kCancelled) << read.ToString();
  EXPECT_EQ(write.code(), StatusCode::kCancelled) << write.ToString();
  EXPECT_EQ(accept.code(), StatusCode::kCancelled) << accept.ToString();
}

TEST_P(StopTest, BeforeRunEndsItAtOnceAndRunsWhatWasPosted) {
  bool ran = false;
  Status accepted;
  ListenerPtr listener = Must(loop().Listen({"127.0.0.1", 0}));
  Gate gate;
  gate.Spawn([](Listener& listener, Status* out) -> Task<void> {
    *out = (co_await listener.Accept()).status();
  }(*listener, &accepted));
  loop().Post([&] { ran = true; });
  loop().Stop();
  loop().Run();
  EXPECT_TRUE(ran);
  EXPECT_EQ(accepted.code(), StatusCode::kCancelled);
}

TEST_P(StopTest, NoTimerFiresAfterwards) {
  bool fired = false;
  std::unique_ptr<Loop::Timer> timer;
  loop().Post([&] {
    timer = loop().StartTimer(loop().Now(), [&] { fired = true; });
    loop().Stop();
  });
  loop().Run();
  EXPECT_FALSE(fired);
}

TEST_P(StopTest, WhatIsPostedAfterRunIsDropped) {
  loop().Stop();
  loop().Run();
  bool ran = false;
  auto token = std::make_shared<int>(0);
  loop().Post([&ran, token] { ran = true; });
  EXPECT_FALSE(ran);
  EXPECT_EQ(token.use_count(), 1);
}

TEST_P(StopTest, StreamsListenersAndTimersMayOutliveTheLoop) {
  StreamPair pair;
  ListenerPtr listener;
  std::unique_ptr<Loop::Timer> timer;
  RunTask([&]() -> Task<void> {
    pair = co_await Connected();
    listener = Must(loop().Listen({"127.0.0.1", 0}));
    timer = loop().StartTimer(loop().Now() + seconds(100), [] {});
  });
  loop_.reset();
}

// A coroutine that never gives up can't keep Run from returning.
TEST_P(StopTest, ReturnsThoughACoroutineKeepsTrying) {
  bool give_up = false;
  Gate gate;
  loop().Post([&] {
    gate.Spawn([](Loop& loop, bool* give_up) -> Task<void> {
      int tries = 0;
      while (!*give_up && ++tries < 100) co_await loop.Sleep(seconds(100));
    }(loop(), &give_up));
    loop().Stop();
  });
  loop().Run();
  EXPECT_EQ(gate.running(), 0u);
}

EMBER_EVERY_LOOP(StopTest);

}  // namespace
}  // namespace ember::io
