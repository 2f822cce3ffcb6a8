#include "router/fleet_feed.h"

#include <spdlog/spdlog.h>

#include <utility>

namespace ember::router {

void FleetFeed::OnSnapshot(ReplicaNumber replica, AgentSnapshot snapshot) {
  const ReplicaSet::Member& m = replicas_.at(replica);
  if (snapshot.replica_id != m.config.id) {
    spdlog::warn("replica {}: its agent calls itself \"{}\"", m.config.id, snapshot.replica_id);
  }
  const NamespaceId before = m.view.ns;
  replicas_.ApplySnapshot(replica, snapshot, SteadyClock().Now());
  if (m.view.ns != before) tokenizer_.Forget();
  if (snapshot.ns) {
    index_.Reset(replica, *snapshot.ns, std::move(snapshot.held));
  } else {
    index_.RemoveReplica(replica);
  }
  metrics_.index_blocks.Set(static_cast<double>(index_.blocks()));
  spdlog::info("replica {}: agent connected, model \"{}\", {} blocks held", m.config.id, m.model,
               index_.blocks_held(replica));
  OnHealthChange(replica);
}

void FleetFeed::OnHeld(ReplicaNumber replica, HeldChain held) {
  index_.SetHeld(replica, std::move(held));
  metrics_.index_blocks.Set(static_cast<double>(index_.blocks()));
}

void FleetFeed::OnReport(ReplicaNumber replica, const AgentReport& report) {
  const bool before = replicas_.at(replica).view.healthy;
  replicas_.ApplyReport(replica, report, SteadyClock().Now());
  if (replicas_.at(replica).view.healthy != before) OnHealthChange(replica);
}

void FleetFeed::OnLost(ReplicaNumber replica, const Status& why) {
  if (replicas_.at(replica).agent_connected) {
    spdlog::warn("replica {}: agent lost: {}", replicas_.at(replica).config.id, why.ToString());
  }
  index_.RemoveReplica(replica);
  replicas_.ApplyLost(replica);
  OnHealthChange(replica);
}

void FleetFeed::OnHealthChange(ReplicaNumber replica) {
  const ReplicaSet::Member& m = replicas_.at(replica);
  bool& told_up = told_up_[replica];
  if (told_up == m.view.healthy) return;
  told_up = m.view.healthy;
  if (m.view.healthy) {
    spdlog::info("replica {} is usable", m.config.id);
  } else {
    spdlog::warn("replica {} is not usable: {}", m.config.id, m.health.why());
  }
}

}  // namespace ember::router
