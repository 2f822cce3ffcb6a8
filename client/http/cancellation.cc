#include "client/http/cancellation.h"

#include <algorithm>
#include <utility>

namespace ember::http {

Cancellation::Registration::Registration(Registration&& other) noexcept
    : owner_(std::exchange(other.owner_, nullptr)), at_(other.at_) {}

Cancellation::Registration& Cancellation::Registration::operator=(Registration&& other) noexcept {
  if (this != &other) {
    Reset();
    owner_ = std::exchange(other.owner_, nullptr);
    at_ = other.at_;
  }
  return *this;
}

void Cancellation::Registration::Reset() {
  if (Cancellation* owner = std::exchange(owner_, nullptr)) owner->callbacks_.erase(at_);
}

Cancellation::Registration Cancellation::OnCancel(Callback callback) {
  if (cancelled_) {
    callback();
    return {};
  }
  callbacks_.push_front(std::move(callback));
  return {this, callbacks_.begin()};
}

void Cancellation::Cancel() {
  if (std::exchange(cancelled_, true)) return;
  // A node belongs to its Registration; it is emptied here, and the search starts anew because a
  // callback may remove any node.
  const auto pending = [](const Callback& c) { return c != nullptr; };
  for (;;) {
    const auto next = std::find_if(callbacks_.begin(), callbacks_.end(), pending);
    if (next == callbacks_.end()) return;
    const Callback callback = std::exchange(*next, nullptr);
    callback();
  }
}

}  // namespace ember::http
