#include "client/io/loop_base.h"

#include <algorithm>

#include "client/io/socket.h"

namespace ember::io {
namespace {

// After Stop a coroutine that keeps starting operations is left suspended in the end: a loop that
// hangs at exit is worse than the CHECK of the Gate that owns such a coroutine.
constexpr int kMaxDrainRounds = 1000;
constexpr Duration kDrainPoll = milliseconds(5);

// A wait this many spins long says that the next spin may pay. The bound on what is lost: one spin
// in as many. It must be several, for where processors halt, waking two loops that sleep takes
// longer than a spin, and neither would ever see the other answer in time.
constexpr int kSpinsWorthwhile = 10;

}  // namespace

struct LoopBase::SleepAwaiter {
  LoopBase* loop;
  TimePoint when;
  std::unique_ptr<Timer> timer = nullptr;

  bool await_ready() const { return false; }
  void await_suspend(std::coroutine_handle<> caller) {
    loop->sleepers_.emplace(this, caller);
    timer = loop->StartTimer(when, [this] { Wake(); });
  }
  void await_resume() {}
  void Wake() {
    auto entry = loop->sleepers_.extract(this);
    loop->Enqueue(entry.mapped());
  }
};

void LoopBase::Run() {
  RunUntil([] { return false; });
  Enter();
  Drain();
  Leave();
}

void LoopBase::RunUntil(const std::function<bool()>& done) {
  if (!std::exchange(started_, true)) Start();
  Enter();
  while (!stop_.load(std::memory_order_acquire)) {
    timers_.RunExpired(Now());
    RunRound();
    if (done()) break;
    if (!stop_.load(std::memory_order_acquire)) Wait();
  }
  Leave();
}

void LoopBase::Wait() {
  if (!ready_.empty()) return Poll(Duration::zero());
  const std::optional<TimePoint> next = timers_.Next();
  const TimePoint start = Now();
  if (spin_ > Duration::zero() && spin_pays_ && Spin(next)) return;
  std::optional<Duration> timeout;
  if (next) timeout = std::max<Duration>(Duration::zero(), *next - Now());
  Poll(timeout);
  spin_pays_ = Now() - start < kSpinsWorthwhile * spin_;
}

bool LoopBase::Spin(std::optional<TimePoint> until) {
  const TimePoint end = std::min(Now() + spin_, until.value_or(TimePoint::max()));
  do {
    Poll(Duration::zero());
    if (!ready_.empty() || !posts_.empty() || stop_.load(std::memory_order_acquire)) return true;
  } while (Now() < end);
  return false;
}

void LoopBase::Stop() {
  stop_.store(true, std::memory_order_release);
  posts_.Wake();
}

void LoopBase::RunRound() {
  for (auto& fn : posts_.Take()) fn();
  for (std::coroutine_handle<> coroutine : std::exchange(ready_, {})) coroutine.resume();
}

void LoopBase::Drain() {
  draining_ = true;
  for (int round = 0; round < kMaxDrainRounds;) {
    while (!sleepers_.empty()) sleepers_.begin()->first->Wake();
    const bool pending = CancelPending();
    // What is pending is waited for, however long a disk takes: its memory isn't ours before.
    if (!pending) ++round;
    if (!pending && ready_.empty() && posts_.empty()) break;
    Poll(ready_.empty() && posts_.empty() ? kDrainPoll : Duration::zero());
    RunRound();
  }
  posts_.Close();
}

Task<void> LoopBase::Sleep(Duration duration) { co_await SleepAwaiter{this, Now() + duration}; }

Result<std::unique_ptr<Listener>> LoopBase::Listen(const Endpoint& endpoint) {
  Result<FileDescriptor> fd = OpenListenSocket(endpoint, socket_flags());
  if (!fd.ok()) return fd.status();
  return AdoptListener(*std::move(fd));
}

Task<Result<std::unique_ptr<Stream>>> LoopBase::ConnectTo(const SocketAddress& address,
                                                          TimePoint deadline) {
  if (draining_) co_return CancelledError("the loop has stopped");
  Result<FileDescriptor> fd = OpenSocket(address.family(), socket_flags());
  if (!fd.ok()) co_return fd.status();
  const int number = fd->get();
  Result<std::unique_ptr<Stream>> stream =
      co_await ConnectSocket(*std::move(fd), address, deadline);
  if (stream.ok() && IsConnectedToItself(number)) co_return UnavailableError("Connection refused");
  co_return stream;
}

Task<Result<std::unique_ptr<Stream>>> LoopBase::Connect(Endpoint endpoint, Duration timeout) {
  const TimePoint deadline = Now() + timeout;
  const std::string what = "connect " + endpoint.ToString();
  Result<std::vector<SocketAddress>> addresses = ResolveEndpoint(endpoint);
  if (!addresses.ok()) co_return addresses.status().WithContext(what);
  Status last;
  for (const SocketAddress& address : *addresses) {
    Result<std::unique_ptr<Stream>> stream = co_await ConnectTo(address, deadline);
    if (stream.ok()) co_return stream;
    last = stream.status();
    if (last.code() == StatusCode::kDeadline || last.code() == StatusCode::kCancelled) break;
  }
  co_return last.WithContext(what);
}

}  // namespace ember::io
