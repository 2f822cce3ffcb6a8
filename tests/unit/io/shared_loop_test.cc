// SharedLoop: callers that run the loop themselves, what goes on without them, and how it ends.

#include "client/io/shared_loop.h"

#include <atomic>
#include <thread>

#include "tests/unit/io/loop_fixture.h"
#include "tests/unit/support/eventually.h"

namespace ember::io {
namespace {

class SharedLoopTest : public testing::TestWithParam<Backend> {
 protected:
  void SetUp() override {
    Result<std::unique_ptr<SharedLoop>> shared = SharedLoop::Make(GetParam(), microseconds(20));
    if (!shared.ok() && GetParam() == Backend::kUring) GTEST_SKIP() << shared.status().ToString();
    shared_ = Must(std::move(shared));
  }
  Loop& loop() { return shared_->loop(); }
  Status Call(std::function<Task<Status>()> make) { return RunOnLoop<Status>(*shared_, make); }
  Status SleepFor(Duration duration) {
    return Call([this, duration]() -> Task<Status> {
      co_await loop().Sleep(duration);
      co_return OkStatus();
    });
  }

  std::unique_ptr<SharedLoop> shared_;
};

TEST_P(SharedLoopTest, ASingleCallerRunsTheLoopOnItsOwnThread) {
  std::thread::id ran_on;
  const auto where = [&]() -> Task<Status> {
    co_await loop().Sleep(microseconds(10));
    ran_on = std::this_thread::get_id();
    co_return OkStatus();
  };
  EXPECT_TRUE(Call(where).ok());
  EXPECT_EQ(ran_on == std::this_thread::get_id(), loop().movable());
}

TEST_P(SharedLoopTest, ManyCallersShareTheLoop) {
  constexpr int kThreads = 8;
  constexpr int kCalls = 200;
  int on_loop = 0;  // touched only by what runs on the loop, on whatever thread
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      const auto count = [&]() -> Task<Status> {
        ++on_loop;
        co_await loop().Sleep(microseconds(t % 3 * 20));
        ++on_loop;
        co_return OkStatus();
      };
      for (int i = 0; i < kCalls; ++i) EXPECT_TRUE(Call(count).ok());
    });
  }
  for (std::thread& thread : threads) thread.join();
  int total = 0;
  const auto read = [&]() -> Task<Status> {
    total = on_loop;
    co_return OkStatus();
  };
  EXPECT_TRUE(Call(read).ok());
  EXPECT_EQ(total, 2 * kThreads * kCalls);
}

TEST_P(SharedLoopTest, ACallOutlastsTheCallerThatRanTheLoopForIt) {
  std::atomic<int> begun{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      const auto wait = [&]() -> Task<Status> {
        ++begun;
        while (begun < 4) co_await loop().Sleep(microseconds(100));
        co_await loop().Sleep(milliseconds(3 * t));
        co_return OkStatus();
      };
      EXPECT_TRUE(Call(wait).ok());
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_P(SharedLoopTest, WhatACallLeavesBehindGoesOnWithoutCallers) {
  std::atomic<bool> done{false};
  Gate gate;
  const auto behind = [&]() -> Task<void> {
    for (int i = 0; i < 20; ++i) co_await loop().Sleep(microseconds(200));
    done = true;
  };
  const auto start = [&]() -> Task<Status> {
    gate.Spawn(behind());
    co_return OkStatus();
  };
  EXPECT_TRUE(Call(start).ok());
  EXPECT_TRUE(Eventually([&] { return done.load(); }));
  const auto end = [&]() -> Task<Status> {
    co_await gate.Close();
    co_return OkStatus();
  };
  EXPECT_TRUE(Call(end).ok());
}

TEST_P(SharedLoopTest, ACallTakesTheLoopOverFromTheBackground) {
  // Keeps the background thread waiting in the loop.
  std::unique_ptr<Loop::Timer> pending;
  const auto start = [&]() -> Task<Status> {
    pending = loop().StartTimer(loop().Now() + std::chrono::hours(1), [] {});
    co_return OkStatus();
  };
  EXPECT_TRUE(Call(start).ok());
  for (int i = 0; i < 200; ++i) EXPECT_TRUE(SleepFor(microseconds(i % 2 * 50)).ok());
  const auto end = [&]() -> Task<Status> {
    pending.reset();
    co_return OkStatus();
  };
  EXPECT_TRUE(Call(end).ok());
}

TEST_P(SharedLoopTest, PostsRunWithoutCallersAndBeforeLaterCalls) {
  std::atomic<int> posted{0};
  shared_->Post([&] { ++posted; });
  EXPECT_TRUE(Eventually([&] { return posted == 1; }));
  for (int i = 0; i < 200; ++i) {
    shared_->Post([&] { ++posted; });
    int seen = 0;
    const auto read = [&]() -> Task<Status> {
      seen = posted;
      co_return OkStatus();
    };
    EXPECT_TRUE(Call(read).ok());
    EXPECT_EQ(seen, i + 2);
  }
}

TEST_P(SharedLoopTest, AReadThatNobodyWaitsForIsAnsweredInTheBackground) {
  std::atomic<size_t> got{0};
  Gate gate;
  StreamPtr ours, theirs;
  Bytes buffer(64);
  const auto read = [&]() -> Task<void> {
    Result<size_t> n = co_await ours->ReadSome(buffer);
    got = n.ok() ? *n : 0;
  };
  const auto accept = [](Listener* listener, StreamPtr* out) -> Task<void> {
    *out = Must(co_await listener->Accept());
  };
  const auto start = [&]() -> Task<Status> {
    ListenerPtr listener = Must(loop().Listen({"127.0.0.1", 0}));
    Gate accepting;
    accepting.Spawn(accept(listener.get(), &theirs));
    ours = Must(co_await loop().Connect({"127.0.0.1", listener->port()}, seconds(5)));
    co_await accepting.Close();
    gate.Spawn(read());
    co_return OkStatus();
  };
  ASSERT_TRUE(Call(start).ok());
  shared_->Post([&] {
    const auto write = [](Stream* stream) -> Task<void> {
      static constexpr std::byte kBytes[5] = {};
      const ByteSpan part = kBytes;
      (void)co_await stream->WriteAll({&part, 1});
    };
    gate.Spawn(write(theirs.get()));
  });
  EXPECT_TRUE(Eventually([&] { return got == 5u; }));
  const auto end = [&]() -> Task<Status> {
    co_await gate.Close();
    ours.reset();
    theirs.reset();
    co_return OkStatus();
  };
  EXPECT_TRUE(Call(end).ok());
}

TEST_P(SharedLoopTest, EndsWithTimersAndSleepsPending) {
  bool ended = false;
  Gate gate;
  const auto nap = [&]() -> Task<void> {
    co_await loop().Sleep(std::chrono::hours(1));
    ended = true;
  };
  const auto start = [&]() -> Task<Status> {
    gate.Spawn(nap());
    co_return OkStatus();
  };
  EXPECT_TRUE(Call(start).ok());
  shared_.reset();
  EXPECT_TRUE(ended);
}

INSTANTIATE_TEST_SUITE_P(BackEnds, SharedLoopTest,
                         testing::Values(Backend::kUring, Backend::kEpoll), [](const auto& row) {
                           return row.param == Backend::kUring ? "uring" : "epoll";
                         });

}  // namespace
}  // namespace ember::io
