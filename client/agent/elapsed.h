// How long something has taken so far.
#pragma once

#include "proto/base/time.h"

namespace ember::agent {

inline double MsSince(TimePoint start) {
  return ToMilliseconds(std::chrono::steady_clock::now() - start);
}

}  // namespace ember::agent
