// Time points on the monotonic clock, and the clocks that code which decides is given.
#pragma once

#include <chrono>
#include <cstdint>

namespace ember {

using Duration = std::chrono::nanoseconds;
using TimePoint = std::chrono::time_point<std::chrono::steady_clock, Duration>;
using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

inline double ToMilliseconds(Duration d) {
  return std::chrono::duration<double, std::milli>(d).count();
}

class Clock {
 public:
  virtual ~Clock() = default;
  virtual TimePoint Now() const = 0;
};

class SteadyClock final : public Clock {
 public:
  TimePoint Now() const override { return std::chrono::steady_clock::now(); }
};

// The time of day, for what must be comparable after a restart. It may step in either direction, so
// durations within a run are measured by a Clock.
class WallClock {
 public:
  virtual ~WallClock() = default;
  // Milliseconds since 1970 (UTC).
  virtual int64_t NowMs() const = 0;
};

class SystemWallClock final : public WallClock {
 public:
  int64_t NowMs() const override {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    return std::chrono::duration_cast<milliseconds>(now).count();
  }
};

}  // namespace ember
