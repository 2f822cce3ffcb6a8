#include "router/policy/least_loaded.h"

#include "router/policy/load.h"

namespace ember::router {

RoutingDecision LeastLoadedPolicy::Decide(const PolicyInput& input) const {
  return DecisionFor(*this, input, LeastLoaded(input.candidates, input.draw), "least_load");
}

}  // namespace ember::router
