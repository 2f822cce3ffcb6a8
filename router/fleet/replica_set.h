// ReplicaSet: the replicas this router was told of, what is known about each, and the requests that
// it has under way at each.
//
// Load is counted once: a request of ours counts as in flight until a report that can contain it
// has arrived, and from then on as part of the report; when the agent is lost all of ours count
// again. Concurrency: one thread (the router's loop). Must outlive its Flights.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "proto/base/time.h"
#include "proto/model/routing.h"
#include "router/fleet/agent_event.h"
#include "router/fleet/health.h"
#include "router/fleet/replica_config.h"

namespace ember::router {

// Counted over the router's life.
struct ReplicaTotals {
  uint64_t requests = 0;
  uint64_t routed_local = 0;  // by the route that the agent reported
  uint64_t routed_remote = 0;
  uint64_t routed_recompute = 0;
  uint64_t cached_tokens = 0;  // as the engine counted
  uint64_t computed_tokens = 0;
};

class ReplicaSet {
 public:
  struct Member {
    ReplicaConfig config;
    Replica view;  // what policies see; kept up to date
    Health health;
    ReplicaTotals totals;
    std::string model;
    bool agent_connected = false;
    double service_ms = 0;  // moving average of a request's time there after its prefill
    uint32_t under_way() const { return static_cast<uint32_t>(flights.size()); }

   private:
    friend class ReplicaSet;
    struct Flight {
      uint64_t prefill_tokens = 0;
      TimePoint started;
    };
    std::map<uint64_t, Flight> flights;  // all of ours, in order of their start
    uint64_t first_unreported = 0;       // flights before this number are part of the report
  };

  // One request under way at one replica; ends when destroyed. Move-only.
  class [[nodiscard]] Flight {
   public:
    Flight() = default;
    Flight(Flight&& other) noexcept { *this = std::move(other); }
    Flight& operator=(Flight&& other) noexcept;
    ~Flight() { End(); }
    // The first token came: its prefill is no longer ahead of anybody.
    void PrefillDone();

   private:
    friend class ReplicaSet;
    Flight(ReplicaSet* set, ReplicaNumber replica, uint64_t number)
        : set_(set), replica_(replica), number_(number) {}
    void End();
    ReplicaSet* set_ = nullptr;
    ReplicaNumber replica_ = 0;
    uint64_t number_ = 0;
  };

  // At most kMaxReplicas, ids distinct.
  explicit ReplicaSet(const std::vector<ReplicaConfig>& configs);
  ReplicaSet(const ReplicaSet&) = delete;
  ReplicaSet& operator=(const ReplicaSet&) = delete;

  size_t size() const { return members_.size(); }
  const Member& at(ReplicaNumber replica) const { return members_.at(replica); }
  Member& at(ReplicaNumber replica) { return members_.at(replica); }
  // Null when there is none of that id.
  const Member* Find(std::string_view id) const;
  ReplicaNumber NumberOf(const Member& member) const {
    return static_cast<ReplicaNumber>(&member - members_.data());
  }
  size_t usable_count() const;

  Flight Start(ReplicaNumber replica, uint64_t prefill_tokens, TimePoint now);
  void ObserveService(ReplicaNumber replica, double ms);

  void ApplySnapshot(ReplicaNumber replica, const AgentSnapshot& snapshot, TimePoint now);
  void ApplyReport(ReplicaNumber replica, const AgentReport& report, TimePoint now);
  void ApplyLost(ReplicaNumber replica);
  // After a change of `health`.
  void RefreshHealth(ReplicaNumber replica);

 private:
  void EndFlight(ReplicaNumber replica, uint64_t number);
  void EndPrefill(ReplicaNumber replica, uint64_t number);

  std::vector<Member> members_;
  uint64_t next_flight_ = 1;
};

}  // namespace ember::router
