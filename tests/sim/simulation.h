// Simulation: one seeded world in one thread: a virtual clock, the loops in it, and what happens
// between them (networks and disks put their events here).
//
// Operation: a step runs one round of one loop that has something to do, chosen by the dice among
// all that have; when none has, the clock jumps to the next event or timer. So a minute of waiting
// costs nothing, loops interleave differently under each seed, and the same seed gives the same
// history: trace() tells whether it did.
// Concurrency: one thread. Life: outlives its loops; loops of one simulation share it.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "tests/sim/dice.h"

namespace ember::sim {

class SimLoop;
class SimNetwork;

class Simulation {
 public:
  explicit Simulation(uint64_t seed);
  Simulation(const Simulation&) = delete;
  Simulation& operator=(const Simulation&) = delete;
  ~Simulation();

  uint64_t seed() const { return seed_; }
  Dice& dice() { return dice_; }
  SimNetwork& network() { return *network_; }
  TimePoint Now() const { return now_; }
  // As a program reads it: takes a few nanoseconds, so that waiting for the clock in a loop ends.
  TimePoint ReadClock() { return now_ += kClockReading; }

  // Calls `fn` at `when`, from the scheduler and not from a loop. `owner` only names it for Forget.
  void At(TimePoint when, const void* owner, std::function<void()> fn);
  void After(Duration delay, const void* owner, std::function<void()> fn) {
    At(now_ + delay, owner, std::move(fn));
  }
  // Drops what was to come for this owner.
  void Forget(const void* owner);

  // False: nothing will ever happen any more.
  bool Step();
  // Steps until `condition` holds. False when it does not within `limit` of virtual time, or when
  // nothing happens any more.
  bool RunUntil(const std::function<bool()>& condition, Duration limit);
  void RunFor(Duration duration);

  // What happened so far, as one number.
  uint64_t trace() const { return trace_; }
  void Note(uint64_t what);
  uint64_t steps() const { return steps_; }

 private:
  friend class SimLoop;
  struct Event {
    const void* owner;
    std::function<void()> fn;
  };
  static constexpr Duration kClockReading{20};

  uint64_t Register(SimLoop* loop);  // its number
  void Unregister(SimLoop* loop);
  bool RunEvent();
  bool RunLoop();
  bool MoveClock(TimePoint limit);
  bool StepUntil(TimePoint limit);

  const uint64_t seed_;
  Dice dice_;
  TimePoint now_{std::chrono::hours(1000)};
  uint64_t trace_;
  uint64_t steps_ = 0;
  uint64_t next_event_ = 0;
  uint64_t next_loop_ = 0;
  std::map<std::pair<TimePoint, uint64_t>, Event> events_;
  std::vector<SimLoop*> loops_;
  std::unique_ptr<SimNetwork> network_;
};

}  // namespace ember::sim
