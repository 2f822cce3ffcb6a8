// ReopenPause: how long to wait before a subscription that came to nothing is tried again: a moment
// after one that was of use, longer each time otherwise. Whoever sends garbage is left alone for
// long; an engine that crashes again and again, or says nothing between its restarts, is followed
// again within two seconds, for what it publishes meanwhile may be lost.
//
// A plain value; one thread.
#pragma once

#include <algorithm>
#include <optional>

#include "proto/base/time.h"

namespace ember::router {

class ReopenPause {
 public:
  static constexpr Duration kFirst = milliseconds(100);
  static constexpr Duration kLongest = seconds(2);
  static constexpr Duration kLongestOfGarbage = seconds(10);
  static constexpr Duration kOfUse = seconds(1);  // a connection that held so long

  void OnMessage() { next_ = kFirst; }
  void OnConnected(TimePoint now) { connected_at_ = now; }
  // The subscription is closed. `garbage`: for what it sent.
  Duration Next(bool garbage, TimePoint now) {
    if (!garbage && connected_at_ && now - *connected_at_ >= kOfUse) next_ = kFirst;
    connected_at_.reset();
    const Duration pause = std::min(next_, garbage ? kLongestOfGarbage : kLongest);
    next_ = std::min(2 * next_, kLongestOfGarbage);
    return pause;
  }

 private:
  Duration next_ = kFirst;
  std::optional<TimePoint> connected_at_;
};

}  // namespace ember::router
