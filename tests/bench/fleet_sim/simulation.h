// Simulation: a fleet of simulated replicas behind the router's real policies and estimates, in
// simulated time: one workload, one policy, one seed, and the same result each time.
//
// The index is taken to be right: matches are the replicas' own caches, as an index has them that
// is told of decisions at once and of evictions by events.
#pragma once

#include <string>
#include <vector>

#include "router/policy/policy.h"
#include "tests/bench/fleet_sim/sim_replica.h"
#include "tests/bench/fleet_sim/work.h"

namespace ember::sim {

struct FleetShape {
  size_t replicas = 4;
  EngineShape engine;
  double first_slower = 1;  // replica 0 computes so much longer
  size_t routers = 1;       // requests are dealt to them in turn
  bool streams = true;      // else a reply comes as a whole
  double report_ms = 250;   // between two load reports of a replica, to all routers
  // Scenarios; 0: it does not happen.
  double kill_first_ms = 0, back_ms = 0;  // replica 0 dies, and comes back empty
  double join_ms = 0;                     // the second half of the replicas joins
};

struct Outcome {
  double at_ms = 0;  // sent
  double ttft_ms = 0;
  double predicted_ms = 0;  // 0: the policy predicts nothing
  size_t replica = 0;
  uint64_t prompt_tokens = 0, cached_tokens = 0, loaded_tokens = 0;
};

struct Result {
  std::vector<Outcome> outcomes;  // in the order of their sending
  size_t cut = 0;                 // lost in a death
};

Result Simulate(const FleetShape& shape, const Work& work, const router::Policy& policy,
                uint64_t seed);

}  // namespace ember::sim
