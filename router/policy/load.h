// Load: how busy a replica is, and the least busy of several. Pure functions, any thread.
#pragma once

#include <cstdint>
#include <span>

#include "router/policy/policy.h"

namespace ember::router {

// Requests at the replica: running, waiting, and ours that its report does not contain yet.
uint64_t RequestsAt(const Replica& replica);

// The same beside its strength: a replica of weight 2 with two requests is as busy as one of weight
// 1 with one.
double LoadOf(const Replica& replica);

// Index of the candidate with the smallest load; among equals, one chosen by `draw`, so that
// simultaneous cold requests do not all land on the first. At least one candidate.
size_t LeastLoaded(std::span<const Candidate> candidates, uint64_t draw);

// Index of a candidate, each as likely as its weight. At least one candidate.
size_t DrawnByWeight(std::span<const Candidate> candidates, uint64_t draw);

// A decision for candidate `index` with that reason.
RoutingDecision DecisionFor(const Policy& policy, const PolicyInput& input, size_t index,
                            std::string reason);

}  // namespace ember::router
