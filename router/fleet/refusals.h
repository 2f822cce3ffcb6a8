// Refusals: what one replica refused (401, 403, 404, 429) and another then took. A wrong key, model
// or limit makes a replica refuse at once, and one that refuses at once looks idle. What all refuse
// is the client's doing and never comes here. A plain value of one thread.
#pragma once

#include <algorithm>
#include <cstdint>

#include "proto/base/time.h"

namespace ember::router {

class Refusals {
 public:
  // It refused a request that another replica took. True: this should be told.
  bool OnAlone(TimePoint now) {
    ++count_;
    if (now < until_ || ++run_ < kRun) return false;
    until_ = now + std::min(kLongest, kFirst * (1 << std::min(run_ - kRun, 10)));
    if (told_ != TimePoint() && now < told_ + kTold) return false;
    told_ = now;
    return true;
  }
  // It took a request.
  void OnTaken() {
    run_ = 0;
    until_ = TimePoint();
  }
  // Others are better asked now, where there are any. Ends by itself, so that it is tried again.
  bool avoided(TimePoint now) const { return now < until_; }
  // Over its life.
  uint64_t count() const { return count_; }

 private:
  static constexpr int kRun = 2;
  static constexpr Duration kFirst = milliseconds(250), kLongest = seconds(8), kTold = seconds(60);
  uint64_t count_ = 0;
  int run_ = 0;  // since it took one
  TimePoint until_, told_;
};

}  // namespace ember::router
