#include "router/policy/load.h"

#include <limits>

namespace ember::router {

uint64_t LoadOf(const Replica& replica) {
  return uint64_t{replica.load.running} + replica.load.waiting + replica.in_flight;
}

size_t LeastLoaded(std::span<const Candidate> candidates, uint64_t draw) {
  uint64_t least = std::numeric_limits<uint64_t>::max();
  size_t equals = 0;
  for (const Candidate& c : candidates) {
    const uint64_t load = LoadOf(*c.replica);
    if (load < least) {
      least = load;
      equals = 0;
    }
    if (load == least) ++equals;
  }
  size_t skip = draw % equals;
  for (size_t i = 0;; ++i) {
    if (LoadOf(*candidates[i].replica) == least && skip-- == 0) return i;
  }
}

RoutingDecision DecisionFor(const Policy& policy, const PolicyInput& input, size_t index,
                            std::string reason) {
  RoutingDecision decision;
  decision.candidate = index;
  decision.replica = input.candidates[index].replica->id;
  decision.rank = input.candidates[index].replica->rank;
  decision.policy = policy.name();
  decision.reason = std::move(reason);
  return decision;
}

}  // namespace ember::router
