// SimWallClock: the time of day in a simulation. It goes with the virtual clock, and steps when a
// test says so.
#pragma once

#include "tests/sim/simulation.h"

namespace ember::sim {

class SimWallClock final : public WallClock {
 public:
  explicit SimWallClock(const Simulation* simulation) : simulation_(simulation) {}

  int64_t NowMs() const override {
    const auto since_start = simulation_->Now().time_since_epoch();
    return kStart + step_ms + std::chrono::duration_cast<milliseconds>(since_start).count();
  }

  int64_t step_ms = 0;

 private:
  static constexpr int64_t kStart = 1'800'000'000'000;

  const Simulation* const simulation_;
};

}  // namespace ember::sim
