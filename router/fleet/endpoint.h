// Endpoint: one replica's HTTP server: what is true of all its data-parallel ranks together. Owned
// by the ReplicaSet, shared with whoever still has work under way there; one thread.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "client/http/cancellation.h"
#include "router/estimate/usual_wait.h"
#include "router/fleet/health.h"
#include "router/fleet/refusals.h"
#include "router/fleet/replica_config.h"
#include "router/fleet/replica_number.h"

namespace ember::router {

struct Endpoint {
  Endpoint(ReplicaConfig config_in, const HealthOptions& options)
      : config(std::move(config_in)), health(options) {}

  // May be sent new requests.
  bool usable() const { return health.usable() && !draining && !removed; }
  // May be usable soon, as its probes will say: it has just joined, or was so this short ago.
  bool may_come(Duration within, TimePoint now) const {
    if (usable() || draining || removed) return false;
    return health.untried() || (out_since != TimePoint() && now - out_since < within);
  }
  // "joining", "up", "trial", "ejected", "draining" or "gone".
  std::string_view state() const;

  ReplicaConfig config;  // changed by ReplicaSet::Tune alone
  Health health;
  Refusals refusals;
  UsualWait usual_wait;
  std::vector<ReplicaNumber> members;  // one, or one a rank, in order of rank
  std::string model;                   // as its agent says
  bool agent_connected = false;
  // Fires, once, when it is put out because it hangs: requests there that have had no answer are
  // better tried elsewhere. Another one takes its place then.
  std::shared_ptr<http::Cancellation> given_up = std::make_shared<http::Cancellation>();
  std::array<uint64_t, kEjectionReasons> ejections{};  // by reason, over its life
  bool draining = false;                               // no new requests; stays a member
  bool removed = false;    // no member any more; gone with its last request
  uint32_t under_way = 0;  // our requests, all ranks together
  TimePoint out_since;     // when it was usable last; 0: now, or never
  // Until then it may be dying: it is probed often, and whether it is dead is told.
  TimePoint doubted_until;
};

}  // namespace ember::router
