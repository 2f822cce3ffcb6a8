// ReplicaSet's part on what shows that a replica computes, and how much.
#include <algorithm>
#include <utility>

#include "router/fleet/replica_set.h"

namespace ember::router {

double ReplicaSet::UsualWaitMs(ReplicaNumber replica, bool stream) const {
  const Endpoint& endpoint = *at(replica).endpoint;
  size_t bytes = 0;
  for (const ReplicaNumber n : endpoint.members) {
    for (const auto& [number, flight] : at(n).flights) {
      if (flight.bytes > 0) bytes = std::max({bytes, flight.bytes, flight.behind});
    }
  }
  double ms = endpoint.usual_wait.Of(stream, bytes);
  for (const auto& other : endpoints_) {
    if (!models_.Overlap(endpoint.members.front(), other->members.front())) continue;
    ms = std::max(ms, other->usual_wait.Of(stream, bytes));
  }
  return ms;
}

void ReplicaSet::ApplyEngineLoad(ReplicaNumber replica, const EngineLoad& load, TimePoint now) {
  Member& m = at(replica);
  // Only who computes fills or frees its cache; its other figures the door before it may count.
  if (m.engine_load && m.engine_load->kv_usage != load.kv_usage) {
    m.endpoint->health.OnSignOfLife(now);
  }
  m.engine_load = load;
  const uint64_t all = uint64_t{load.running} + load.waiting;
  const auto others = static_cast<uint32_t>(all - std::min<uint64_t>(all, m.under_way()));
  m.view.load.waiting = std::min(load.waiting, others);
  m.view.load.running = others - m.view.load.waiting;
  m.view.load.kv_usage = load.kv_usage;
  if (load.capacity_tokens > 0) m.view.cache.capacity_tokens = load.capacity_tokens;
  m.estimate.OnReport(load.waiting, now);
}

void ReplicaSet::ForgetEngineLoad(ReplicaNumber replica) {
  Member& m = at(replica);
  if (!std::exchange(m.engine_load, std::nullopt)) return;
  m.view.load = {};
  m.estimate.OnReport(0, TimePoint());
}

}  // namespace ember::router
