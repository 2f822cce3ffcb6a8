#include "router/fleet/health.h"

namespace ember::router {

void Health::OnProbe(const Status& status) {
  if (status.ok()) {
    up_ = true;
    slow_ = 0;
    why_.clear();
    return;
  }
  if (status.code() == StatusCode::kDeadline && ++slow_ < kSlowProbes) return;
  up_ = false;
  why_ = "probe: " + status.ToString();
}

void Health::OnConnectFailure(const Status& why) {
  up_ = false;
  why_ = "request: " + why.ToString();
}

std::string Health::why() const {
  if (!up_) return why_;
  return usable() ? "" : "its agent reports it unhealthy";
}

}  // namespace ember::router
