#include "router/admission/drain_rate.h"

#include <algorithm>
#include <cmath>

namespace ember::router {
namespace {

constexpr double kMemorySeconds = 10;
constexpr double kLongest = 30;

}  // namespace

double DrainRate::CountAt(TimePoint now) const {
  const double age = ToMilliseconds(now - at_) / 1000;
  return age <= 0 ? count_ : count_ * std::exp(-age / kMemorySeconds);
}

void DrainRate::OnEnd(TimePoint now) {
  count_ = CountAt(now) + 1;
  at_ = now;
  ++ended_since_;
}

void DrainRate::OnFirstWaiter(TimePoint now) {
  waiting_since_ = now;
  ended_since_ = 0;
}

int DrainRate::SecondsFor(size_t requests, TimePoint now) const {
  double per_second = CountAt(now) / kMemorySeconds;
  // Most of the memory may have been idle. What has only just begun is taken to do one a second.
  const double waited = ToMilliseconds(now - waiting_since_) / 1000;
  if (waited < kMemorySeconds) {
    per_second = std::max(per_second, (ended_since_ + 1) / (waited + 1));
  }
  if (per_second * kLongest <= 1) return static_cast<int>(kLongest);
  const double seconds = std::ceil(static_cast<double>(requests) / per_second);
  return static_cast<int>(std::clamp(seconds, 1.0, kLongest));
}

}  // namespace ember::router
