#include "router/fleet/join_watch.h"

namespace ember::router {
namespace {

// Engines that have just been started listen only after a while.
constexpr Duration kPatience = seconds(5);
// A reason that alternates shall not fill the log.
constexpr Duration kBetween = seconds(30);

}  // namespace

std::optional<std::string> JoinWatch::Due(const Health& health, TimePoint now) {
  if (health.state() != Health::State::kJoining || health.untried()) return {};
  if (now - joined_ < kPatience || (said_at_ && now - *said_at_ < kBetween)) return {};
  const std::string why = health.why();
  if (why == said_) return {};
  said_at_ = now;
  said_ = why;
  const auto age = std::chrono::duration_cast<seconds>(now - joined_).count();
  return "is not up after " + std::to_string(age) + " s: " + why;
}

}  // namespace ember::router
