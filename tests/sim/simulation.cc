#include "tests/sim/simulation.h"

#include <algorithm>

#include "tests/sim/sim_loop.h"
#include "tests/sim/sim_network.h"

namespace ember::sim {

Simulation::Simulation(uint64_t seed)
    : seed_(seed), dice_(seed), trace_(seed), network_(std::make_unique<SimNetwork>(this)) {}

Simulation::~Simulation() { EMBER_CHECK(loops_.empty(), "a loop outlived its simulation"); }

void Simulation::At(TimePoint when, const void* owner, std::function<void()> fn) {
  events_.emplace(std::pair{std::max(when, now_), next_event_++}, Event{owner, std::move(fn)});
}

void Simulation::Forget(const void* owner) {
  std::erase_if(events_, [&](const auto& event) { return event.second.owner == owner; });
}

uint64_t Simulation::Register(SimLoop* loop) {
  loops_.push_back(loop);
  return next_loop_++;
}

void Simulation::Unregister(SimLoop* loop) {
  std::erase(loops_, loop);
  Forget(loop);
}

// One step of SplitMix64 over what came before.
void Simulation::Note(uint64_t what) { trace_ = SeededRandom(trace_ ^ what).Next(); }

bool Simulation::RunEvent() {
  if (events_.empty() || events_.begin()->first.first > now_) return false;
  auto event = events_.extract(events_.begin());
  event.mapped().fn();
  return true;
}

bool Simulation::RunLoop() {
  std::vector<SimLoop*> runnable;
  for (SimLoop* loop : loops_) {
    if (loop->NextRound() <= now_) runnable.push_back(loop);
  }
  if (runnable.empty()) return false;
  SimLoop* chosen = runnable.size() == 1 ? runnable[0] : runnable[dice_.Below(runnable.size())];
  Note(chosen->number());
  Note(static_cast<uint64_t>(now_.time_since_epoch().count()));
  ++steps_;
  chosen->Round();
  return true;
}

bool Simulation::MoveClock(TimePoint limit) {
  TimePoint next = events_.empty() ? TimePoint::max() : events_.begin()->first.first;
  for (SimLoop* loop : loops_) next = std::min(next, loop->NextRound());
  if (next == TimePoint::max()) return false;
  now_ = std::max(now_, std::min(next, limit));
  return true;
}

bool Simulation::StepUntil(TimePoint limit) {
  while (RunEvent()) {
  }
  return RunLoop() || MoveClock(limit);
}

bool Simulation::Step() { return StepUntil(TimePoint::max()); }

bool Simulation::RunUntil(const std::function<bool()>& condition, Duration limit) {
  const TimePoint end = now_ + limit;
  while (!condition()) {
    if (now_ >= end || !StepUntil(end)) return condition();
  }
  return true;
}

void Simulation::RunFor(Duration duration) {
  const TimePoint end = now_ + duration;
  while (now_ < end) {
    if (!StepUntil(end)) now_ = end;
  }
}

}  // namespace ember::sim
