#include "tests/sim/sim_loop.h"

#include <algorithm>
#include <utility>

#include "tests/sim/sim_file.h"
#include "tests/sim/sim_network.h"

namespace ember::sim {
namespace {

// As the real loops: a coroutine that doesn't give up after Stop is left suspended in the end.
constexpr int kMaxDrainRounds = 1000;

std::unique_ptr<SimFileSystem> Mount(SimLoop* loop, std::shared_ptr<SimDisk> disk) {
  if (disk == nullptr) disk = std::make_shared<SimDisk>(&loop->simulation());
  return std::make_unique<SimFileSystem>(loop, std::move(disk));
}

}  // namespace

SimLoop::SimLoop(std::shared_ptr<Simulation> simulation, SimLoopOptions options)
    : simulation_(std::move(simulation)),
      address_(std::move(options.address)),
      max_round_(options.max_round),
      number_(simulation_->Register(this)),
      files_(Mount(this, std::move(options.disk))) {}

SimLoop::~SimLoop() { simulation_->Unregister(this); }

void SimLoop::Run() {
  while (!ended_) {
    EMBER_CHECK(simulation_->Step(), "everything waits and nothing will ever happen");
  }
}

void SimLoop::Post(std::function<void()> fn) {
  if (!ended_) posts_.push_back(std::move(fn));
}

TimePoint SimLoop::NextRound() const {
  if (ended_ || (draining_ && uncancellable_ > 0 && ready_.empty() && posts_.empty())) {
    return TimePoint::max();
  }
  if (stop_ || !ready_.empty() || !posts_.empty()) return busy_until_;
  const std::optional<TimePoint> timer = timers_.Next();
  return timer ? std::max(*timer, busy_until_) : TimePoint::max();
}

void SimLoop::Round() {
  turns_ = 0;
  if (stop_) {
    DrainRound();
  } else {
    timers_.RunExpired(Now());
    RunReady();
  }
  busy_until_ = simulation_->Now() + simulation_->dice().Between(Duration(0), max_round_);
}

void SimLoop::RunReady() {
  for (auto& fn : std::exchange(posts_, {})) fn();
  for (std::coroutine_handle<> coroutine : std::exchange(ready_, {})) coroutine.resume();
}

void SimLoop::DrainRound() {
  draining_ = true;
  while (!parked_.empty()) Unpark(parked_.begin()->first);
  RunReady();
  if (uncancellable_ > 0) return;
  const bool quiet = ready_.empty() && posts_.empty() && parked_.empty();
  if (!quiet && ++drain_rounds_ < kMaxDrainRounds) return;
  ended_ = true;
  posts_.clear();
}

uint64_t SimLoop::Park(std::coroutine_handle<> coroutine) {
  parked_.emplace(next_parked_, coroutine);
  return next_parked_++;
}

void SimLoop::Unpark(uint64_t number) {
  auto it = parked_.find(number);
  if (it == parked_.end()) return;
  Enqueue(it->second);
  parked_.erase(it);
}

io::Task<void> SimLoop::Sleep(Duration duration) {
  ParkingSpot spot;
  const auto timer = StartTimer(Now() + duration, [&spot] { spot.Wake(); });
  co_await spot.Wait(this);
}

io::FileSystem& SimLoop::files() { return *files_; }

Result<std::unique_ptr<io::Listener>> SimLoop::Listen(const io::Endpoint& endpoint) {
  return simulation_->network().Listen(this, endpoint);
}

io::Task<Result<std::unique_ptr<io::Stream>>> SimLoop::Connect(io::Endpoint endpoint,
                                                               Duration timeout) {
  return simulation_->network().Connect(this, std::move(endpoint), timeout);
}

}  // namespace ember::sim
