#include "router/policy/random.h"

#include "router/policy/load.h"

namespace ember::router {

RoutingDecision RandomPolicy::Decide(const PolicyInput& input) const {
  return DecisionFor(*this, input, DrawnByWeight(input.candidates, input.draw), "draw");
}

}  // namespace ember::router
