// TimerQueue: one loop's pending timers, in order of time and then of start. The loop's thread
// only.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "client/io/loop.h"

namespace ember::io {

class TimerQueue {
 public:
  std::unique_ptr<Loop::Timer> Start(TimePoint when, std::function<void()> fn);
  // When the earliest timer is due.
  std::optional<TimePoint> Next() const;
  // Runs what is due at `now`. Timers started meanwhile wait for the next call, due or not.
  void RunExpired(TimePoint now);

 private:
  using Key = std::pair<TimePoint, uint64_t>;
  using Entries = std::map<Key, std::function<void()>>;
  class Handle;

  // Shared with the handles, which may outlive the loop.
  std::shared_ptr<Entries> entries_ = std::make_shared<Entries>();
  uint64_t next_sequence_ = 0;
};

}  // namespace ember::io
