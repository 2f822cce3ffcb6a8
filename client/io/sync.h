// For threads that have no loop: a loop in a thread of its own, and a blocking call into it.
#pragma once

#include <functional>
#include <future>
#include <memory>
#include <thread>
#include <type_traits>

#include "client/io/loop.h"

namespace ember::io {

// Owns a Loop and the thread inside its Run. The destructor stops and joins; what runs on the loop
// should have been closed before (RunOnLoop a coroutine that closes it).
class LoopThread {
 public:
  explicit LoopThread(std::unique_ptr<Loop> loop);
  // As MakeLoop; `spin` as Loop::set_spin.
  static Result<std::unique_ptr<LoopThread>> Make(Backend backend,
                                                  std::string* fallback_reason = nullptr,
                                                  Duration spin = Duration::zero());
  LoopThread(const LoopThread&) = delete;
  LoopThread& operator=(const LoopThread&) = delete;
  ~LoopThread();

  Loop& loop() { return *loop_; }

 private:
  const std::unique_ptr<Loop> loop_;
  std::thread thread_;
};

namespace internal {

// The function is kept in this frame because the task's frame refers to its captures.
template <typename T>
Detached Fulfil(std::function<Task<T>()> make, std::shared_ptr<std::promise<T>> promise) {
  promise->set_value(co_await make());
}

}  // namespace internal

// Runs the task that `make` returns on the loop and waits for its result. Any thread but the
// loop's. T is Status or a Result: it is kCancelled when the loop stops before the task has begun.
template <typename T>
T RunOnLoop(Loop& loop, std::function<Task<T>()> make) {
  static_assert(std::is_constructible_v<T, Status>, "T must be able to say that the loop stopped");
  auto promise = std::make_shared<std::promise<T>>();
  std::future<T> future = promise->get_future();
  loop.Post([make = std::move(make), promise = std::move(promise)]() mutable {
    internal::Fulfil<T>(std::move(make), std::move(promise));
  });
  try {
    return future.get();
  } catch (const std::future_error&) {
    return T(CancelledError("the loop has stopped"));
  }
}

}  // namespace ember::io
