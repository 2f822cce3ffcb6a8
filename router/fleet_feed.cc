#include "router/fleet_feed.h"

#include <spdlog/spdlog.h>

#include <utility>

namespace ember::router {

void FleetFeed::OnSnapshot(ReplicaNumber replica, AgentSnapshot snapshot) {
  const ReplicaSet::Member& m = replicas_.at(replica);
  if (snapshot.replica_id != m.config.id) {
    spdlog::warn("replica {}: its agent calls itself \"{}\"", m.config.id, snapshot.replica_id);
  }
  const std::optional<KeySpace> before = m.agent_space;
  replicas_.ApplySnapshot(replica, snapshot, SteadyClock().Now());
  if (m.agent_space != before) tokenizer_.Forget();
  matcher_.Forget(replica);
  if (snapshot.ns) index_.Reset(m.holder, std::move(snapshot.held));
  metrics_.index_blocks.Set(static_cast<double>(index_.blocks()));
  spdlog::info("replica {}: agent connected, model \"{}\", {} blocks held", m.config.id,
               m.endpoint->model, index_.blocks_held(m.holder));
}

void FleetFeed::OnHeld(ReplicaNumber replica, HeldChain held) {
  index_.SetHeld(replicas_.at(replica).holder, std::move(held));
  metrics_.index_blocks.Set(static_cast<double>(index_.blocks()));
}

void FleetFeed::OnReport(ReplicaNumber replica, const AgentReport& report) {
  replicas_.ApplyReport(replica, report, SteadyClock().Now());
}

void FleetFeed::OnLost(ReplicaNumber replica, const Status& why) {
  if (replicas_.at(replica).endpoint->agent_connected) {
    spdlog::warn("replica {}: agent lost: {}", replicas_.at(replica).config.id, why.ToString());
  }
  matcher_.Forget(replica);
  replicas_.ApplyLost(replica);
}

void FleetFeed::OnAdded(const Endpoint& endpoint) {
  for (const ReplicaNumber n : endpoint.members) {
    replicas_.at(n).holder = index_.AddHolder(HolderKind::kReplica);
  }
  spdlog::info("replica {} at {} joins", endpoint.config.id, endpoint.config.http.ToString());
}

void FleetFeed::OnStateChanged(const Endpoint& endpoint) {
  if (endpoint.state() == "ejected") {
    spdlog::warn("replica {} is ejected: {}", endpoint.config.id, endpoint.health.why());
  } else {
    spdlog::info("replica {} is {}", endpoint.config.id, endpoint.state());
  }
}

void FleetFeed::OnReadmitted(const Endpoint& endpoint) {
  for (const ReplicaNumber n : endpoint.members) replicas_.at(n).counts_cached = 0;
  // An agent's stream that stands proves that it is the same process; what was only presumed may
  // be the memory of one that has died.
  if (!endpoint.agent_connected) ForgetHeld(endpoint);
}

void FleetFeed::OnModelsChanged(const Endpoint& endpoint) {
  // Which of them is an adapter of which is part of what prompts are remembered as.
  tokenizer_.Forget();
  const auto& models = replicas_.models().ListOf(endpoint.members.front()).models;
  spdlog::info("replica {} lists {} models{}", endpoint.config.id, models.size(),
               models.empty() ? "" : ", \"" + models.front().name + "\" first");
}

void FleetFeed::OnRemoved(const Endpoint& endpoint) {
  for (const ReplicaNumber n : endpoint.members) {
    matcher_.Forget(n);
    index_.RemoveHolder(std::exchange(replicas_.at(n).holder, kNoHolder));
  }
  metrics_.index_blocks.Set(static_cast<double>(index_.blocks()));
}

void FleetFeed::ForgetHeld(const Endpoint& endpoint) {
  for (const ReplicaNumber n : endpoint.members) matcher_.Forget(n);
  metrics_.index_blocks.Set(static_cast<double>(index_.blocks()));
}

}  // namespace ember::router
