// DrainRate: how many requests end a second, lately. A plain value of one thread.
#pragma once

#include "proto/base/time.h"

namespace ember::router {

class DrainRate {
 public:
  void OnEnd(TimePoint now);
  // From now on somebody waits, and before nobody did: what ended before was all that came.
  void OnFirstWaiter(TimePoint now);
  // Seconds until so many more have ended: 1 to 30.
  int SecondsFor(size_t requests, TimePoint now) const;

 private:
  double CountAt(TimePoint now) const;  // ended, each fading over kMemory
  double count_ = 0;
  TimePoint at_;
  TimePoint waiting_since_;
  double ended_since_ = 0;
};

}  // namespace ember::router
