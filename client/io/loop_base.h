// LoopBase: what both back ends share: the run loop, posts, timers, sleeps, name resolution and the
// order of shutting down. A back end adds Poll and the operations on sockets.
//
// Operation: Poll only collects completions and puts the coroutines that wait for them on the ready
// list; the run loop resumes them afterwards, one by one from its own frame. So user code never
// runs inside Poll, and the stack never grows with the number of completions.
#pragma once

#include <atomic>
#include <coroutine>
#include <optional>
#include <unordered_map>
#include <vector>

#include "client/io/loop.h"
#include "client/io/posix_file_system.h"
#include "client/io/post_queue.h"
#include "client/io/socket_address.h"
#include "client/io/timer_queue.h"

namespace ember::io {

class LoopBase : public Loop {
 public:
  explicit LoopBase(FileDescriptor wake) : posts_(std::move(wake)), files_(this) {}

  void Run() final;
  void RunUntil(const std::function<bool()>& done) final;
  bool HasWork() final {
    return !ready_.empty() || suspended_ > 0 || timers_.Next().has_value() || !posts_.empty();
  }
  void set_spin(Duration spin) final { spin_ = spin; }
  size_t pending_operations() const final { return suspended_; }
  void Stop() final;
  void Post(std::function<void()> fn) final {
    if (posts_.Push(std::move(fn))) Wake();
  }
  Result<std::unique_ptr<Listener>> Listen(const Endpoint& endpoint) final;
  Task<Result<std::unique_ptr<Stream>>> Connect(Endpoint endpoint, Duration timeout) final;
  FileSystem& files() final { return files_; }
  std::unique_ptr<Timer> StartTimer(TimePoint when, std::function<void()> fn) final {
    return timers_.Start(when, std::move(fn));
  }
  Task<void> Sleep(Duration duration) final;
  TimePoint Now() const final { return std::chrono::steady_clock::now(); }

  // For the back end's streams and files.
  // Resumes `coroutine` in the next round.
  void Enqueue(std::coroutine_handle<> coroutine) { ready_.push_back(coroutine); }
  // An operation waits in the back end's hands, or no longer does.
  void AddSuspended() { ++suspended_; }
  void RemoveSuspended() { --suspended_; }
  // After Stop: new operations fail with kCancelled.
  bool draining() const { return draining_; }
  // A File of this back end for an open descriptor.
  virtual std::unique_ptr<File> AdoptFile(FileDescriptor fd, std::string path, bool direct) = 0;
  // Suspends until the next round.
  auto Yield() {
    struct Awaiter {
      LoopBase* loop;
      bool await_ready() { return false; }
      void await_suspend(std::coroutine_handle<> caller) { loop->Enqueue(caller); }
      void await_resume() {}
    };
    return Awaiter{this};
  }

 protected:
  // Called once, on the thread inside Run, before anything else.
  virtual void Start() {}
  // The calling thread begins or ends to run the loop.
  virtual void Enter() {}
  virtual void Leave() {}
  // Ends the current or next Poll, after a Post. Any thread.
  virtual void Wake() { posts_.Wake(); }
  // Waits for completions until one is there, the loop is woken or `timeout` has passed (nullopt:
  // for ever), and enqueues their coroutines.
  virtual void Poll(std::optional<Duration> timeout) = 0;
  // Asks every pending operation to end with kCancelled; true while some have not ended, in which
  // case the kernel or another thread may still use their memory.
  virtual bool CancelPending() = 0;

  virtual int socket_flags() const = 0;
  virtual Result<std::unique_ptr<Listener>> AdoptListener(FileDescriptor fd) = 0;
  // `address` stays valid until it completes. kDeadline when `deadline` passes first.
  virtual Task<Result<std::unique_ptr<Stream>>> ConnectSocket(FileDescriptor fd,
                                                              const SocketAddress& address,
                                                              TimePoint deadline) = 0;

  PostQueue posts_;

 private:
  struct SleepAwaiter;

  void RunRound();
  void Wait();
  // True when something came within spin_.
  bool Spin(std::optional<TimePoint> until);
  void Drain();
  Task<Result<std::unique_ptr<Stream>>> ConnectTo(const SocketAddress& address, TimePoint deadline);

  std::vector<std::coroutine_handle<>> ready_;
  PosixFileSystem files_;
  TimerQueue timers_;
  std::unordered_map<SleepAwaiter*, std::coroutine_handle<>> sleepers_;
  size_t suspended_ = 0;
  Duration spin_ = Duration::zero();
  bool spin_pays_ = true;
  bool started_ = false;
  std::atomic<bool> stop_{false};
  bool draining_ = false;
};

}  // namespace ember::io
