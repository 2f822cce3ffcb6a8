// FleetFeed: applies what agents report to the replica set and the index. The router's loop thread;
// what it refers to must outlive it.
#pragma once

#include <map>

#include "router/fleet/replica_set.h"
#include "router/index/prefix_index.h"
#include "router/telemetry/router_metrics.h"
#include "router/tokenize/tokenizer.h"

namespace ember::router {

class FleetFeed final : public AgentListener {
 public:
  FleetFeed(ReplicaSet& replicas, PrefixIndex& index, Tokenizer& tokenizer, RouterMetrics& metrics)
      : replicas_(replicas), index_(index), tokenizer_(tokenizer), metrics_(metrics) {}

  void OnSnapshot(ReplicaNumber replica, AgentSnapshot snapshot) override;
  void OnHeld(ReplicaNumber replica, HeldChain held) override;
  void OnReport(ReplicaNumber replica, const AgentReport& report) override;
  void OnLost(ReplicaNumber replica, const Status& why) override;
  // The replica became usable or stopped being so: logged, once.
  void OnHealthChange(ReplicaNumber replica);

 private:
  ReplicaSet& replicas_;
  PrefixIndex& index_;
  Tokenizer& tokenizer_;
  RouterMetrics& metrics_;
  std::map<ReplicaNumber, bool> told_up_;  // what the log said last
};

}  // namespace ember::router
