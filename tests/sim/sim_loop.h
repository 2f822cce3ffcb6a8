// SimLoop: a Loop in a Simulation. Its streams go through the simulation's network, its files lie
// on the SimDisk that it was given, its clock is the simulation's.
//
// It runs as part of the simulation, whoever drives that: Run() drives it until this loop has
// stopped. A round is that of the real loops: due timers, posted functions, ready coroutines, each
// from the loop's own frame.
// Concurrency: one thread, Post and Stop included. Life: as io::Loop; it shares its simulation.
#pragma once

#include <coroutine>
#include <map>
#include <vector>

#include "client/io/loop.h"
#include "client/io/timer_queue.h"
#include "tests/sim/simulation.h"

namespace ember::sim {

class SimDisk;
class SimFileSystem;

struct SimLoopOptions {
  std::string address = "127.0.0.1";     // its host; loops may share one
  std::shared_ptr<SimDisk> disk;         // null: an empty one of its own, without faults
  Duration max_round = microseconds(5);  // what a round costs at most
};

class SimLoop final : public io::Loop {
 public:
  explicit SimLoop(std::shared_ptr<Simulation> simulation, SimLoopOptions options = {});
  ~SimLoop() override;

  void Run() override;
  void Stop() override { stop_ = true; }
  void Post(std::function<void()> fn) override;
  Result<std::unique_ptr<io::Listener>> Listen(const io::Endpoint& endpoint) override;
  io::Task<Result<std::unique_ptr<io::Stream>>> Connect(io::Endpoint endpoint,
                                                        Duration timeout) override;
  io::FileSystem& files() override;
  // There is nothing to register with.
  Status RegisterMemory(MutableByteSpan) override { return OkStatus(); }
  std::unique_ptr<Timer> StartTimer(TimePoint when, std::function<void()> fn) override {
    return timers_.Start(when, std::move(fn));
  }
  io::Task<void> Sleep(Duration duration) override;
  TimePoint Now() const override { return simulation_->ReadClock(); }
  std::string_view backend() const override { return "sim"; }

  Simulation& simulation() const { return *simulation_; }
  const std::shared_ptr<Simulation>& shared_simulation() const { return simulation_; }
  const std::string& address() const { return address_; }
  uint64_t number() const { return number_; }
  bool ended() const { return ended_; }

  // For the scheduler. When it next has something to do; TimePoint::max() for never.
  TimePoint NextRound() const;
  void Round();

  // For streams and files.
  // Resumes `coroutine` in the next round.
  void Enqueue(std::coroutine_handle<> coroutine) { ready_.push_back(coroutine); }
  // After Stop: new operations fail with kCancelled.
  bool draining() const { return draining_; }
  // False when this round has had so many turns that the caller should Yield.
  bool TakeTurn() { return ++turns_ <= kTurnsPerRound; }
  auto Yield() {
    struct Awaiter {
      SimLoop* loop;
      bool await_ready() { return false; }
      void await_suspend(std::coroutine_handle<> caller) { loop->Enqueue(caller); }
      void await_resume() {}
    };
    return Awaiter{this};
  }
  // An operation that can't be called back has begun, or is over: Stop waits for it.
  void BeginUncancellable() { ++uncancellable_; }
  void EndUncancellable() { --uncancellable_; }
  // Waiting coroutines that Stop wakes, by number of arrival.
  uint64_t Park(std::coroutine_handle<> coroutine);
  void Unpark(uint64_t number);

 private:
  static constexpr int kTurnsPerRound = 256;

  void DrainRound();
  void RunReady();

  const std::shared_ptr<Simulation> simulation_;
  const std::string address_;
  const Duration max_round_;
  const uint64_t number_;
  const std::unique_ptr<SimFileSystem> files_;
  std::vector<std::function<void()>> posts_;
  std::vector<std::coroutine_handle<>> ready_;
  io::TimerQueue timers_;
  std::map<uint64_t, std::coroutine_handle<>> parked_;
  uint64_t next_parked_ = 1;
  size_t uncancellable_ = 0;
  TimePoint busy_until_{};
  int turns_ = 0;
  int drain_rounds_ = 0;
  bool stop_ = false;
  bool draining_ = false;
  bool ended_ = false;
};

// Where at most one coroutine waits until it is woken, or its loop stops.
class ParkingSpot {
 public:
  ParkingSpot() = default;
  ParkingSpot(const ParkingSpot&) = delete;
  ParkingSpot& operator=(const ParkingSpot&) = delete;
  ~ParkingSpot() { EMBER_CHECK(!taken_, "a stream outlives its pending operations"); }

  auto Wait(SimLoop* loop) {
    struct Awaiter {
      ParkingSpot* spot;
      SimLoop* loop;
      bool await_ready() { return false; }
      void await_suspend(std::coroutine_handle<> caller) {
        spot->loop_ = loop;
        spot->taken_ = true;
        spot->number_ = loop->Park(caller);
      }
      void await_resume() { spot->taken_ = false; }
    };
    EMBER_CHECK(!taken_, "one read and one write at a time");
    return Awaiter{this, loop};
  }
  void Wake() {
    if (taken_) loop_->Unpark(number_);
  }

 private:
  SimLoop* loop_ = nullptr;
  uint64_t number_ = 0;
  bool taken_ = false;
};

}  // namespace ember::sim
