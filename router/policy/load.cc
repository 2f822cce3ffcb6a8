#include "router/policy/load.h"

#include <limits>

namespace ember::router {

uint64_t RequestsAt(const Replica& replica) {
  return uint64_t{replica.load.running} + replica.load.waiting + replica.in_flight;
}

double LoadOf(const Replica& replica) {
  return static_cast<double>(RequestsAt(replica)) / replica.weight;
}

size_t LeastLoaded(std::span<const Candidate> candidates, uint64_t draw) {
  double least = std::numeric_limits<double>::max();
  size_t equals = 0;
  for (const Candidate& c : candidates) {
    const double load = LoadOf(*c.replica);
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

size_t DrawnByWeight(std::span<const Candidate> candidates, uint64_t draw) {
  double total = 0;
  for (const Candidate& c : candidates) total += c.replica->weight;
  double point = static_cast<double>(draw >> 11) / 0x1p53 * total;
  for (size_t i = 0; i + 1 < candidates.size(); ++i) {
    point -= candidates[i].replica->weight;
    if (point < 0) return i;
  }
  return candidates.size() - 1;
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
