// Loop: one thread's event loop, and the only maker of streams, listeners, files and timers.
//
// Two real back ends, chosen at start: io_uring, and epoll where io_uring is refused (the default
// seccomp profile of most container runtimes). Both pass the same contract tests.
// Concurrency: everything but Post and Stop is called on the thread inside Run (or before Run).
#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include "client/io/file_system.h"
#include "client/io/stream.h"
#include "client/io/task.h"
#include "proto/base/time.h"

namespace ember::io {

class Loop : public Clock {
 public:
  // Runs until Stop. Returns with every completion handled; call once.
  virtual void Run() = 0;
  // Ends Run after the current batch of completions. Operations still pending are cancelled first,
  // and their coroutines resumed with kCancelled; later ones fail so at once, and sleeps end.
  // Timers no longer fire. Any thread.
  virtual void Stop() = 0;
  // Whether different threads may run it in turn; the "thread inside Run" is then whoever does.
  virtual bool movable() const { return false; }
  // Of a movable loop. As Run, but returns once `done()`, which is asked after each round, or when
  // stopped. May be called again, by any thread, never by two at once; Run ends the series.
  virtual void RunUntil(const std::function<bool()>& done);
  // Of a movable loop, its running thread only: whether anything would happen if it ran on (a
  // function posted, a coroutine that is ready or waits, a timer).
  virtual bool HasWork();
  // Operations that are with the kernel now: with io_uring, the depth of its ring. The loop's
  // thread.
  virtual size_t pending_operations() const { return 0; }
  // How long to look for completions, again and again, before the thread is put to sleep. Not done
  // after a wait of ten times as long, until one was shorter. 0, the default: never. Before the
  // first run.
  virtual void set_spin(Duration /*spin*/) {}
  // Runs `fn` on the loop's thread, soon, in order of posting. Any thread; wakes the loop. Once Run
  // has returned, `fn` is dropped unrun.
  virtual void Post(std::function<void()> fn) = 0;

  // Binds and listens; the address must be free (kUnavailable with the system's reason otherwise).
  virtual Result<std::unique_ptr<Listener>> Listen(const Endpoint& endpoint) = 0;
  // Connects within `timeout`. Names are resolved before the first await, blocking; give addresses
  // on hot paths.
  virtual Task<Result<std::unique_ptr<Stream>>> Connect(Endpoint endpoint, Duration timeout) = 0;

  // The disk. Lives as long as the loop.
  virtual FileSystem& files() = 0;
  // Says that `memory` will be used for I/O for as long as the loop lives, so that reads and writes
  // of Files that lie within it cost less. Pins all its pages in memory at once, so it is only for
  // memory that is allocated in advance anyway, and it must stay mapped until the loop has died. A
  // failure (kBusy: the process may not lock that much memory) does no harm: I/O there goes the
  // plain way. OK without effect where the back end has no such thing.
  virtual Status RegisterMemory(MutableByteSpan memory) = 0;

  class Timer;
  // Calls `fn` once on the loop's thread at or after `when`, unless cancelled first.
  virtual std::unique_ptr<Timer> StartTimer(TimePoint when, std::function<void()> fn) = 0;
  // Suspends for `duration`, or until Stop.
  virtual Task<void> Sleep(Duration duration) = 0;

  virtual std::string_view backend() const = 0;  // "uring" or "epoll"
};

// Destroying it cancels; fn never runs after that. The loop's thread only.
class Loop::Timer {
 public:
  virtual ~Timer() = default;
};

enum class Backend { kAuto, kUring, kEpoll };

// kAuto tries io_uring and falls back to epoll, and `*fallback_reason` then says why.
Result<std::unique_ptr<Loop>> MakeLoop(Backend backend, std::string* fallback_reason = nullptr);
// "auto", "uring", "epoll".
Result<Backend> ParseBackend(std::string_view text);

}  // namespace ember::io
