// What a replica's agent reports, as plain checked values, and who wants to hear it. Made by
// AgentWatcher from the gRPC stream; tests make them by hand.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "proto/base/status.h"
#include "proto/model/routing.h"
#include "router/fleet/replica_number.h"
#include "router/index/held_chain.h"

namespace ember::router {

struct AgentReport {
  bool healthy = false;
  ReplicaLoad load;
  PrefillModel prefill;
  double load_tokens_per_ms = 0;  // store to engine; 0: no store
};

struct AgentSnapshot {
  std::string replica_id;
  std::optional<NamespaceId> ns;  // nothing while the engine's identity is not known
  uint64_t namespace_seed = 0;    // 0: not told, so that only the agent can name blocks
  uint32_t tokens_per_block = 0;
  std::vector<HeldChain> held;
  AgentReport report;
  std::string model;
};

// Called on the router's loop thread, in the order of the agent's stream: a snapshot before
// anything else, and again after each loss.
class AgentListener {
 public:
  virtual ~AgentListener() = default;
  virtual void OnSnapshot(ReplicaNumber replica, AgentSnapshot snapshot) = 0;
  virtual void OnHeld(ReplicaNumber replica, HeldChain held) = 0;
  virtual void OnReport(ReplicaNumber replica, const AgentReport& report) = 0;
  // The stream broke: nothing that was reported can be relied on any more.
  virtual void OnLost(ReplicaNumber replica, const Status& why) = 0;
};

}  // namespace ember::router
