// LeastLoadedPolicy: the candidate with the fewest requests; equals by chance.
#pragma once

#include "router/policy/policy.h"

namespace ember::router {

class LeastLoadedPolicy final : public Policy {
 public:
  std::string_view name() const override { return "least_loaded"; }
  RoutingDecision Decide(const PolicyInput& input) const override;
};

}  // namespace ember::router
