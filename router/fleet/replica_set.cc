#include "router/fleet/replica_set.h"

#include <algorithm>
#include <utility>

namespace ember::router {
namespace {

// A report can contain a request that was sent this long before it arrived.
constexpr Duration kReportDelay = milliseconds(20);
constexpr double kServiceWeight = 0.2;  // of the newest request in the moving average

}  // namespace

ReplicaSet::Flight& ReplicaSet::Flight::operator=(Flight&& other) noexcept {
  if (this == &other) return *this;
  End();
  set_ = std::exchange(other.set_, nullptr);
  replica_ = other.replica_;
  number_ = other.number_;
  return *this;
}

void ReplicaSet::Flight::PrefillDone() {
  if (set_ != nullptr) set_->EndPrefill(replica_, number_);
}

void ReplicaSet::Flight::End() {
  if (set_ != nullptr) std::exchange(set_, nullptr)->EndFlight(replica_, number_);
}

ReplicaSet::ReplicaSet(const std::vector<ReplicaConfig>& configs) : members_(configs.size()) {
  EMBER_CHECK(configs.size() <= kMaxReplicas, "the configuration was checked");
  for (size_t i = 0; i < configs.size(); ++i) {
    members_[i].config = configs[i];
    members_[i].view.id = configs[i].id;
  }
}

const ReplicaSet::Member* ReplicaSet::Find(std::string_view id) const {
  const auto it = std::find_if(members_.begin(), members_.end(),
                               [&](const Member& m) { return m.config.id == id; });
  return it == members_.end() ? nullptr : &*it;
}

size_t ReplicaSet::usable_count() const {
  return static_cast<size_t>(std::count_if(members_.begin(), members_.end(),
                                           [](const Member& m) { return m.view.healthy; }));
}

ReplicaSet::Flight ReplicaSet::Start(ReplicaNumber replica, uint64_t prefill_tokens,
                                     TimePoint now) {
  Member& m = at(replica);
  ++m.totals.requests;
  ++m.view.in_flight;
  m.view.in_flight_prefill_tokens += prefill_tokens;
  m.flights.emplace(next_flight_, Member::Flight{prefill_tokens, now});
  return Flight(this, replica, next_flight_++);
}

void ReplicaSet::EndPrefill(ReplicaNumber replica, uint64_t number) {
  Member& m = at(replica);
  const auto flight = m.flights.find(number);
  if (flight == m.flights.end()) return;
  if (number >= m.first_unreported) {
    m.view.in_flight_prefill_tokens -= flight->second.prefill_tokens;
  }
  flight->second.prefill_tokens = 0;
}

void ReplicaSet::EndFlight(ReplicaNumber replica, uint64_t number) {
  EndPrefill(replica, number);
  Member& m = at(replica);
  m.flights.erase(number);
  if (number >= m.first_unreported) {
    --m.view.in_flight;
    return;
  }
  // The report still counts it; the next one will not.
  if (m.view.load.running > 0) --m.view.load.running;
}

void ReplicaSet::ObserveService(ReplicaNumber replica, double ms) {
  double& mean = at(replica).service_ms;
  mean = mean == 0 ? ms : mean + kServiceWeight * (ms - mean);
}

void ReplicaSet::ApplySnapshot(ReplicaNumber replica, const AgentSnapshot& snapshot,
                               TimePoint now) {
  Member& m = at(replica);
  m.agent_connected = true;
  m.model = snapshot.model;
  m.view.ns = snapshot.ns.value_or(NamespaceId{});
  m.view.tokens_per_block = snapshot.tokens_per_block;
  ApplyReport(replica, snapshot.report, now);
}

void ReplicaSet::ApplyReport(ReplicaNumber replica, const AgentReport& report, TimePoint now) {
  Member& m = at(replica);
  m.view.load = report.load;
  m.view.prefill = report.prefill;
  m.view.load_tokens_per_ms = report.load_tokens_per_ms;
  auto it = m.flights.lower_bound(m.first_unreported);
  for (; it != m.flights.end() && it->second.started + kReportDelay <= now; ++it) {
    --m.view.in_flight;
    m.view.in_flight_prefill_tokens -= it->second.prefill_tokens;
    m.first_unreported = it->first + 1;
  }
  m.health.OnAgentReport(report.healthy);
  RefreshHealth(replica);
}

void ReplicaSet::ApplyLost(ReplicaNumber replica) {
  Member& m = at(replica);
  m.agent_connected = false;
  m.view.load = {.slots_total = m.view.load.slots_total};
  m.first_unreported = 0;
  m.view.in_flight = m.under_way();
  m.view.in_flight_prefill_tokens = 0;
  for (const auto& [number, flight] : m.flights) {
    m.view.in_flight_prefill_tokens += flight.prefill_tokens;
  }
  m.health.OnAgentLost();
  RefreshHealth(replica);
}

void ReplicaSet::RefreshHealth(ReplicaNumber replica) {
  Member& m = at(replica);
  m.view.healthy = m.health.usable();
}

}  // namespace ember::router
