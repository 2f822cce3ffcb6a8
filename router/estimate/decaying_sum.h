// DecayingSum: a sum whose parts fade exponentially, so that it speaks of the last seconds.
// A plain value of one thread.
#pragma once

#include <cmath>

#include "proto/base/time.h"

namespace ember::router {

class DecayingSum {
 public:
  // Of what was added this long ago, 1/e is left.
  explicit DecayingSum(Duration memory) : memory_ms_(ToMilliseconds(memory)) {}

  void Add(double amount, TimePoint now) {
    sum_ = At(now) + amount;
    at_ = now;
  }
  double At(TimePoint now) const {
    const double age_ms = ToMilliseconds(now - at_);
    return age_ms <= 0 ? sum_ : sum_ * std::exp(-age_ms / memory_ms_);
  }
  // The rate that a steady stream with this sum has.
  double PerMs(TimePoint now) const { return At(now) / memory_ms_; }

 private:
  double memory_ms_;
  double sum_ = 0;
  TimePoint at_;
};

}  // namespace ember::router
