// ReplicaSet's part on replicas that take the same requests.
#include <algorithm>

#include "router/fleet/replica_set.h"

namespace ember::router {

Health::Peers ReplicaSet::PeersOf(const Endpoint& endpoint, TimePoint now) const {
  int usable = 0, out = 0, known = 0;
  double failing = 0;
  Health::Replies replies;
  for (const auto& other : endpoints_) {
    if (other.get() == &endpoint ||
        !models_.Overlap(endpoint.members.front(), other->members.front())) {
      continue;
    }
    replies.all += other->health.replies().all;
    replies.failed += other->health.replies().failed;
    const bool is_out = other->health.out_for_replies();
    usable += other->usable() ? 1 : 0;
    out += is_out ? 1 : 0;
    if (!is_out && !other->usable()) continue;
    ++known;
    failing += other->health.failing(now);
  }
  return {
      .can_spare = usable > out, .failing = known == 0 ? 0 : failing / known, .replies = replies};
}

bool ReplicaSet::OthersUsable(const Endpoint& endpoint) const {
  return std::any_of(endpoints_.begin(), endpoints_.end(), [&](const auto& other) {
    return other.get() != &endpoint && other->usable() &&
           models_.Overlap(endpoint.members.front(), other->members.front());
  });
}

}  // namespace ember::router
