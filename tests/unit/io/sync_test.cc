// Other threads: Post, RunOnLoop and LoopThread.

#include "client/io/sync.h"

#include <atomic>
#include <mutex>
#include <thread>

#include "tests/unit/io/loop_fixture.h"

namespace ember::io {
namespace {

class SyncTest : public testing::TestWithParam<Backend> {
 protected:
  void SetUp() override {
    Result<std::unique_ptr<LoopThread>> thread = LoopThread::Make(GetParam());
    if (!thread.ok() && GetParam() == Backend::kUring) GTEST_SKIP() << thread.status().ToString();
    thread_ = Must(std::move(thread));
  }

  std::unique_ptr<LoopThread> thread_;
  Loop& loop() { return thread_->loop(); }
};

TEST_P(SyncTest, PostsOfManyThreadsAllRunEachInItsOrder) {
  constexpr int kThreads = 8;
  constexpr int kPosts = 2000;
  std::vector<int> last(kThreads, -1);  // the loop's thread only
  int out_of_order = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kPosts; ++i) {
        loop().Post([&, t, i] { out_of_order += std::exchange(last[t], i) != i - 1; });
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const Result<int> total = RunOnLoop<Result<int>>(loop(), [&]() -> Task<Result<int>> {
    int sum = 0;
    for (int i : last) sum += i + 1;
    co_return sum;
  });
  EXPECT_EQ(*total, kThreads * kPosts);
  EXPECT_EQ(out_of_order, 0);
}

TEST_P(SyncTest, WakesASleepingLoop) {
  for (int i = 0; i < 200; ++i) {
    const Status status = RunOnLoop<Status>(loop(), []() -> Task<Status> { co_return OkStatus(); });
    ASSERT_TRUE(status.ok());
  }
}

TEST_P(SyncTest, GivesTheResultOfATaskThatSuspends) {
  const Result<std::string> result =
      RunOnLoop<Result<std::string>>(loop(), [&]() -> Task<Result<std::string>> {
        co_await loop().Sleep(milliseconds(1));
        co_return std::string("done");
      });
  EXPECT_EQ(*result, "done");
}

TEST_P(SyncTest, ManyCallersShareTheLoop) {
  std::atomic<int> good{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        const Result<int> r = RunOnLoop<Result<int>>(loop(), [&]() -> Task<Result<int>> {
          co_await loop().Sleep(microseconds(50));
          co_return t * 100 + i;
        });
        good += r.ok() && *r == t * 100 + i;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(good, 400);
}

TEST_P(SyncTest, ACallerIsReleasedWhenTheLoopStops) {
  std::atomic<bool> begun{false};
  Status status;
  std::thread caller([&] {
    status = RunOnLoop<Status>(loop(), [&]() -> Task<Status> {
      auto listener = loop().Listen({"127.0.0.1", 0});
      begun = true;
      co_return (co_await (*listener)->Accept()).status();
    });
  });
  while (!begun) std::this_thread::yield();
  loop().Stop();
  caller.join();
  EXPECT_EQ(status.code(), StatusCode::kCancelled) << status.ToString();
}

TEST_P(SyncTest, AfterStopACallFails) {
  loop().Stop();
  // Run may still be ending: then the task runs, and its operations are cancelled.
  const Status status = RunOnLoop<Status>(loop(), [&]() -> Task<Status> {
    co_return (co_await loop().Connect({"127.0.0.1", 1}, seconds(5))).status();
  });
  EXPECT_EQ(status.code(), StatusCode::kCancelled) << status.ToString();
}

INSTANTIATE_TEST_SUITE_P(BackEnds, SyncTest, testing::Values(Backend::kUring, Backend::kEpoll),
                         [](const auto& info) {
                           return info.param == Backend::kUring ? "uring" : "epoll";
                         });

}  // namespace
}  // namespace ember::io
