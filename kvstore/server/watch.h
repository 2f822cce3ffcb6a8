// Watch: until when a connection's peer must have done something. The server's sweep looks at it,
// so arming costs no timer. The loop's thread only.
#pragma once

#include <algorithm>

#include "proto/base/time.h"

namespace ember::kv {

class Watch {
 public:
  explicit Watch(const Clock* clock) : clock_(clock) {}

  // The pending operation must make progress within `d`.
  void Arm(Duration d) { step_ = clock_->Now() + d; }
  void Disarm() { step_ = TimePoint::max(); }
  // However many steps it takes, all must be over within `d`. The first limit stays until Unlimit.
  void Limit(Duration d) {
    if (limit_ == TimePoint::max()) limit_ = clock_->Now() + d;
  }
  void Unlimit() { limit_ = TimePoint::max(); }
  bool Due(TimePoint now) const { return now >= std::min(step_, limit_); }

 private:
  const Clock* const clock_;
  TimePoint step_ = TimePoint::max();
  TimePoint limit_ = TimePoint::max();
};

}  // namespace ember::kv
