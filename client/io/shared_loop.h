// SharedLoop: a loop for blocking callers of a library, run by the callers themselves.
//
// Operation: whoever calls runs the loop on its own thread until its own call has ended, so a
// single caller's request costs no hand-over to another thread and back. When several call at
// once, one runs the loop and the others sleep; the one that leaves hands it on. What is left when
// no caller is there (timers, late answers) is run by a thread in the background. A loop that can't
// change threads (io_uring's ring belongs to one) is run by the background thread alone.
//
// Concurrency: any thread but, for what blocks, the one that runs the loop. Life: every call has
// returned before it dies; what runs on the loop should have been closed before.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "client/io/loop.h"

namespace ember::io {

class SharedLoop {
 public:
  // kAuto is epoll, which callers can run; kUring is asked for explicitly. `spin` as
  // Loop::set_spin.
  static Result<std::unique_ptr<SharedLoop>> Make(Backend backend, Duration spin);
  explicit SharedLoop(std::unique_ptr<Loop> loop);
  SharedLoop(const SharedLoop&) = delete;
  SharedLoop& operator=(const SharedLoop&) = delete;
  ~SharedLoop();

  // What one blocked caller waits for.
  class Call {
   public:
    explicit Call(SharedLoop* loop) : loop_(loop) {}
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;
    // On the loop, once; the caller may destroy the Call at once.
    void Finish();

   private:
    friend class SharedLoop;
    SharedLoop* const loop_;
    std::condition_variable wake_;
    bool waiting_ = false;
    bool finished_ = false;
    bool chosen_ = false;  // to run the loop
  };

  // Runs `start` on the loop and blocks until `call` is finished.
  void Wait(Call& call, std::function<void()> start);
  // As Loop::Post, from any thread.
  void Post(std::function<void()> fn);
  // Others wait for the thread that runs the loop: it should not do what they could do themselves.
  bool crowded() const { return waiting_count_.load(std::memory_order_relaxed) > 0; }
  Loop& loop() { return *loop_; }

 private:
  void RunInBackground();
  void BeginWaiting(Call* call);
  void EndWaiting(Call* call);
  // The running thread leaves; `mutex_` is held.
  void HandOn();

  const std::unique_ptr<Loop> loop_;
  std::mutex mutex_;
  // Guarded by mutex_.
  std::deque<Call*> waiting_;  // neither finished nor chosen
  bool running_ = false;       // somebody runs the loop
  bool work_left_ = false;
  bool stopping_ = false;

  std::atomic<size_t> waiting_count_{0};  // of waiting_
  std::condition_variable background_wake_;
  std::thread background_;
};

namespace internal {

template <typename T, typename Make>
Detached FulfilCall(Make& make, std::optional<T>& result, SharedLoop::Call& call) {
  result.emplace(co_await make());
  call.Finish();
}

}  // namespace internal

// Runs the task that `make` returns on the loop and waits for its result.
template <typename T, typename Make>
T RunOnLoop(SharedLoop& loop, Make make) {
  std::optional<T> result;
  SharedLoop::Call call(&loop);
  loop.Wait(call, [&] { internal::FulfilCall<T>(make, result, call); });
  return *std::move(result);
}

}  // namespace ember::io
