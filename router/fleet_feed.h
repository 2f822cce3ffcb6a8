// FleetFeed: applies what agents report to the replica set and the index, and keeps index, metrics
// and log in step with replicas that come, change and go. The router's loop thread; what it refers
// to must outlive it.
#pragma once

#include "router/fleet/replica_set.h"
#include "router/index/prefix_index.h"
#include "router/matching/prefix_matcher.h"
#include "router/telemetry/router_metrics.h"
#include "router/tokenize/tokenizer.h"

namespace ember::router {

class FleetFeed final : public AgentListener, public ReplicaListener {
 public:
  FleetFeed(ReplicaSet& replicas, PrefixIndex& index, PrefixMatcher& matcher, Tokenizer& tokenizer,
            RouterMetrics& metrics)
      : replicas_(replicas),
        index_(index),
        matcher_(matcher),
        tokenizer_(tokenizer),
        metrics_(metrics) {}

  void OnSnapshot(ReplicaNumber replica, AgentSnapshot snapshot) override;
  void OnHeld(ReplicaNumber replica, HeldChain held) override;
  void OnReport(ReplicaNumber replica, const AgentReport& report) override;
  void OnLost(ReplicaNumber replica, const Status& why) override;

  void OnAdded(const Endpoint& endpoint) override;
  void OnStateChanged(const Endpoint& endpoint) override;
  void OnReadmitted(const Endpoint& endpoint) override;
  void OnRemoved(const Endpoint& endpoint) override;
  void OnModelsChanged(const Endpoint& endpoint) override;

 private:
  void ForgetHeld(const Endpoint& endpoint);

  ReplicaSet& replicas_;
  PrefixIndex& index_;
  PrefixMatcher& matcher_;
  Tokenizer& tokenizer_;
  RouterMetrics& metrics_;
};

}  // namespace ember::router
