// Gate: owns the background tasks of one object; the object closes it before it dies.
//
// Concurrency: the loop's thread only.
#pragma once

#include <coroutine>
#include <cstddef>

#include "client/io/task.h"

namespace ember::io {

class Gate {
 public:
  Gate() = default;
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;
  ~Gate() { EMBER_CHECK(running_ == 0, "close a Gate before destroying it"); }

  // Starts the task now; it runs up to its first suspension before Spawn returns.
  void Spawn(Task<void> task) {
    EMBER_CHECK(!closed_, "a closed Gate takes no task");
    ++running_;
    Run(std::move(task));
  }

  // No new tasks; resumes when the last running one has ended. It does not stop them: close their
  // streams first. Awaited once.
  auto Close() {
    closed_ = true;
    struct Awaiter {
      Gate* gate;
      bool await_ready() { return gate->running_ == 0; }
      void await_suspend(std::coroutine_handle<> caller) { gate->waiter_ = caller; }
      void await_resume() {}
    };
    return Awaiter{this};
  }

  bool closed() const { return closed_; }
  size_t running() const { return running_; }

 private:
  internal::Detached Run(Task<void> task) {
    {
      Task<void> owned = std::move(task);
      co_await std::move(owned);
    }
    // The waiter may destroy this Gate, so nothing of it is touched after the resume.
    if (--running_ == 0 && waiter_) waiter_.resume();
  }

  size_t running_ = 0;
  bool closed_ = false;
  std::coroutine_handle<> waiter_;
};

}  // namespace ember::io
