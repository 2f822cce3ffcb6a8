// BlockingPool: a few threads that make blocking system calls for one loop that has no other way
// (epoll knows no regular files).
//
// Concurrency: everything belongs to the loop's thread but the calls themselves. Threads start when
// there is work for them and end with the pool.
#pragma once

#include <condition_variable>
#include <coroutine>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include <sys/types.h>

namespace ember::io {

class LoopBase;

class BlockingPool {
 public:
  explicit BlockingPool(LoopBase* loop) : loop_(loop) {}
  BlockingPool(const BlockingPool&) = delete;
  BlockingPool& operator=(const BlockingPool&) = delete;
  // What has begun is waited for.
  ~BlockingPool();

  // Suspends until another thread has run `call() -> ssize_t` and gives its result (a count or a
  // negative error number): -ECANCELED when CancelQueued came first, -ENOMEM when the system has no
  // thread for it.
  template <typename Call>
  auto Perform(Call call) {
    struct Awaiter : Job {
      BlockingPool* pool;
      Call call;
      Awaiter(BlockingPool* p, Call c) : pool(p), call(std::move(c)) {}
      void Execute() override { result = call(); }
      bool await_ready() { return false; }
      void await_suspend(std::coroutine_handle<> caller) {
        waiter = caller;
        pool->Submit(this);
      }
      ssize_t await_resume() { return result; }
    };
    return Awaiter(this, std::move(call));
  }

  // Ends the calls that no thread has begun; true while others run.
  bool CancelQueued();

 private:
  // Lives in the frame of the coroutine that waits.
  struct Job {
    virtual ~Job() = default;
    virtual void Execute() = 0;
    std::coroutine_handle<> waiter;
    ssize_t result = 0;
  };

  void Submit(Job* job);
  bool StartThread();
  void Work();
  void Finish(Job* job);

  LoopBase* const loop_;
  size_t unfinished_ = 0;  // the loop's thread only
  std::vector<std::thread> threads_;

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Job*> queue_;
  size_t idle_ = 0;
  bool ending_ = false;
};

}  // namespace ember::io
