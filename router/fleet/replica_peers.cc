// ReplicaSet's part on replicas that take the same requests, and on those that may be dying.
#include <algorithm>
#include <utility>

#include "router/fleet/replica_set.h"

namespace ember::router {

Health::Peers ReplicaSet::PeersOf(const Endpoint& endpoint, TimePoint now) const {
  int usable = 0, out = 0, known = 0;
  double failing = 0;
  Health::Replies replies;
  TimePoint alive_at;
  for (const auto& other : endpoints_) {
    if (other.get() == &endpoint ||
        !models_.Overlap(endpoint.members.front(), other->members.front())) {
      continue;
    }
    replies.all += other->health.replies().all;
    replies.failed += other->health.replies().failed;
    alive_at = std::max(alive_at, other->health.alive_at());
    const bool is_out = other->health.out_for_replies();
    usable += other->usable() ? 1 : 0;
    out += is_out ? 1 : 0;
    if (!is_out && !other->usable()) continue;
    ++known;
    failing += other->health.failing(now);
  }
  return {.can_spare = usable > out,
          .failing = known == 0 ? 0 : failing / known,
          .replies = replies,
          .alive_at = alive_at};
}

bool ReplicaSet::OthersUsable(const Endpoint& endpoint) const {
  return std::any_of(endpoints_.begin(), endpoints_.end(), [&](const auto& other) {
    return other.get() != &endpoint && other->usable() &&
           models_.Overlap(endpoint.members.front(), other->members.front());
  });
}

void ReplicaSet::Doubt(ReplicaNumber replica, Duration time, TimePoint now) {
  Endpoint& endpoint = *at(replica).endpoint;
  if (std::exchange(endpoint.doubted_until, now + time) > now) return;
  for (ReplicaListener* l : listeners_) l->OnDoubted(endpoint);
}

void ReplicaSet::TellIfDead(Endpoint& endpoint, const Status& why, TimePoint now) {
  // Who is slow may only be busy.
  if (why.ok() || why.code() == StatusCode::kDeadline || now >= endpoint.doubted_until) return;
  endpoint.doubted_until = TimePoint();
  for (ReplicaListener* l : listeners_) l->OnFoundDead(endpoint);
}

}  // namespace ember::router
