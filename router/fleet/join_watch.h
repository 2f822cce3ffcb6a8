// JoinWatch: when to say why a replica that has joined is still not up: once its first seconds are
// over, and again when the reason is another one. A plain value; one thread.
#pragma once

#include <optional>
#include <string>

#include "router/fleet/health.h"

namespace ember::router {

class JoinWatch {
 public:
  explicit JoinWatch(TimePoint joined) : joined_(joined) {}

  // What to say now, after a probe: its age and the reason; nothing: it was said, or is up.
  std::optional<std::string> Due(const Health& health, TimePoint now);

 private:
  const TimePoint joined_;
  std::optional<TimePoint> said_at_;
  std::string said_;
};

}  // namespace ember::router
