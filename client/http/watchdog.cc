#include "client/http/watchdog.h"

#include <boost/asio/steady_timer.hpp>
#include <utility>

namespace ember::http {

TimePoint After(Duration d) {
  const TimePoint now = std::chrono::steady_clock::now();
  return d >= TimePoint::max() - now ? TimePoint::max() : now + d;
}

struct Watchdog::State : std::enable_shared_from_this<State> {
  State(boost::asio::any_io_executor strand, std::function<void()> callback)
      : timer(std::move(strand)), on_expiry(std::move(callback)) {}

  // Waits until `deadline`, unless an earlier wait is pending, which will look again.
  void Arm() {
    if (deadline == TimePoint::max() || armed <= deadline) return;
    armed = deadline;
    timer.expires_at(armed);
    timer.async_wait([self = shared_from_this()](boost::system::error_code ec) {
      if (!ec) self->Fire();
    });
  }
  void Fire() {
    armed = TimePoint::max();
    if (deadline > std::chrono::steady_clock::now()) return Arm();
    expired = true;
    deadline = TimePoint::max();
    if (on_expiry) on_expiry();
  }

  boost::asio::steady_timer timer;
  std::function<void()> on_expiry;
  TimePoint deadline = TimePoint::max();
  TimePoint armed = TimePoint::max();
  bool expired = false;
};

Watchdog::Watchdog(boost::asio::any_io_executor strand, std::function<void()> on_expiry)
    : state_(std::make_shared<State>(std::move(strand), std::move(on_expiry))) {}

Watchdog::~Watchdog() {
  state_->on_expiry = nullptr;
  state_->deadline = TimePoint::max();
  state_->timer.cancel();
}

void Watchdog::ExpireAt(TimePoint when) {
  state_->deadline = when;
  state_->expired = false;
  state_->Arm();
}

bool Watchdog::expired() const { return state_->expired; }

}  // namespace ember::http
