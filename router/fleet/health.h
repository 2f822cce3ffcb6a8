// Health: whether a replica may be sent requests, from three witnesses: probes of its /health, its
// agent's own report, and requests that could not connect. A pure state machine; one thread.
//
// A refused connection or a bad probe takes the replica out at once, slow probes only three in a
// row (a busy engine answers late); the next good probe brings it back. What a client did wrong
// (4xx) is never a witness.
#pragma once

#include <optional>
#include <string>

#include "proto/base/status.h"
#include "proto/base/time.h"

namespace ember::router {

class Health {
 public:
  // `status` of a probe: OK, kDeadline when it was too slow, anything else when it failed.
  void OnProbe(const Status& status);
  void OnConnectFailure(const Status& why);
  void OnAgentReport(bool healthy) { reported_ = healthy; }
  void OnAgentLost() { reported_.reset(); }

  bool usable() const { return up_ && reported_.value_or(true); }
  // Why not, for people; "" when usable.
  std::string why() const;
  // Until the next probe: soon while down, so that a replica that is back is used at once.
  Duration probe_delay() const { return up_ ? seconds(1) : milliseconds(250); }

 private:
  static constexpr int kSlowProbes = 3;
  bool up_ = false;
  std::optional<bool> reported_;
  int slow_ = 0;
  std::string why_ = "not probed yet";
};

}  // namespace ember::router
