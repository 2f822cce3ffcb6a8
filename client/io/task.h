// Task<T>: a lazy coroutine with one owner, for code that runs on one Loop.
//
// Operation: nothing runs until the task is awaited (co_await, which moves the task in) or spawned
// (Gate::Spawn). The awaiting frame resumes when the task ends, on the same thread.
// Concurrency: one thread. A frame dies only after its last operation has completed, because the
// kernel may still be writing into its buffers; cancelling is a request (Stream::Close), never a
// drop.
#pragma once

#include <coroutine>
#include <exception>
#include <optional>
#include <utility>

#include "proto/base/check.h"

namespace ember::io {

template <typename T>
class Task;

namespace internal {

struct PromiseBase {
  std::coroutine_handle<> continuation = std::noop_coroutine();

  std::suspend_always initial_suspend() noexcept { return {}; }
  struct FinalAwaiter {
    bool await_ready() noexcept { return false; }
    template <typename P>
    std::coroutine_handle<> await_suspend(std::coroutine_handle<P> h) noexcept {
      return h.promise().continuation;
    }
    void await_resume() noexcept {}
  };
  FinalAwaiter final_suspend() noexcept { return {}; }
  // No exceptions of ours; one that reaches here is a bug, and the process ends where it happened.
  void unhandled_exception() noexcept { std::terminate(); }
};

template <typename T>
struct Promise : PromiseBase {
  std::optional<T> value;
  Task<T> get_return_object();
  template <typename U>
  void return_value(U&& v) {
    value.emplace(std::forward<U>(v));
  }
  T Take() { return std::move(*value); }
};

template <>
struct Promise<void> : PromiseBase {
  Task<void> get_return_object();
  void return_void() {}
  void Take() {}
};

}  // namespace internal

template <typename T = void>
class [[nodiscard]] Task {
 public:
  using promise_type = internal::Promise<T>;
  using Handle = std::coroutine_handle<promise_type>;

  explicit Task(Handle h) : handle_(h) {}
  Task(Task&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Task& operator=(Task&&) = delete;
  ~Task() {
    if (handle_) handle_.destroy();
  }

  auto operator co_await() && {
    struct Awaiter {
      Handle handle;
      bool await_ready() { return false; }
      std::coroutine_handle<> await_suspend(std::coroutine_handle<> caller) {
        handle.promise().continuation = caller;
        return handle;
      }
      T await_resume() { return handle.promise().Take(); }
    };
    EMBER_CHECK(handle_, "a Task is awaited once");
    return Awaiter{handle_};
  }

 private:
  Handle handle_;
};

namespace internal {
template <typename T>
Task<T> Promise<T>::get_return_object() {
  return Task<T>(std::coroutine_handle<Promise<T>>::from_promise(*this));
}
inline Task<void> Promise<void>::get_return_object() {
  return Task<void>(std::coroutine_handle<Promise<void>>::from_promise(*this));
}

// A fire-and-forget frame that destroys itself; only Gate and RunOnLoop make these.
struct Detached {
  struct promise_type {
    Detached get_return_object() { return {}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() noexcept { std::terminate(); }
  };
};
}  // namespace internal

}  // namespace ember::io
