// Dice: the one source of chance of a simulation. Same seed, same throws.
#pragma once

#include "proto/base/check.h"
#include "proto/base/random.h"
#include "proto/base/time.h"

namespace ember::sim {

class Dice final : public RandomSource {
 public:
  explicit Dice(uint64_t seed) : random_(seed ^ 0x656d626572ULL) {}

  uint64_t Next() override { return random_.Next(); }
  // 0 to n - 1.
  uint64_t Below(uint64_t n) {
    EMBER_CHECK(n > 0, "nothing to choose from");
    return Next() % n;
  }
  // Both included.
  uint64_t Between(uint64_t low, uint64_t high) { return low + Below(high - low + 1); }
  Duration Between(Duration low, Duration high) {
    return Duration(static_cast<int64_t>(
        Between(static_cast<uint64_t>(low.count()), static_cast<uint64_t>(high.count()))));
  }
  // True so often. Throws nothing for 0, so that switching one fault off leaves the others as they
  // were.
  bool Chance(double probability) {
    return probability > 0 && static_cast<double>(Next() >> 11) * 0x1p-53 < probability;
  }

 private:
  SeededRandom random_;
};

}  // namespace ember::sim
