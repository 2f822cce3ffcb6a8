// Watchdog: one timer whose expiry moves often and is seldom reached; moving it later costs
// nothing.
//
// Concurrency: the strand given. Life: may be destroyed at any time there, its callback included.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <functional>
#include <memory>

#include "proto/base/time.h"

namespace ember::http {

// now + d, where Duration::max() means never.
TimePoint After(Duration d);

class Watchdog {
 public:
  Watchdog(boost::asio::any_io_executor strand, std::function<void()> on_expiry);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  // Replaces the expiry; TimePoint::max() disarms. expired() becomes false.
  void ExpireAt(TimePoint when);
  void Disarm() { ExpireAt(TimePoint::max()); }
  // True from the expiry to the next ExpireAt.
  bool expired() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace ember::http
