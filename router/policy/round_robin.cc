#include "router/policy/round_robin.h"

#include "router/policy/load.h"

namespace ember::router {

RoutingDecision RoundRobinPolicy::Decide(const PolicyInput& input) const {
  return DecisionFor(*this, input, input.turn % input.candidates.size(), "turn");
}

}  // namespace ember::router
