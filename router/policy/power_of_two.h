// PowerOfTwoPolicy: the less loaded of two candidates drawn by chance (Mitzenmacher, "The power of
// two choices in randomized load balancing", 2001): nearly as even as the least of all, and no herd
// when many routers see the same stale loads.
#pragma once

#include "router/policy/policy.h"

namespace ember::router {

class PowerOfTwoPolicy final : public Policy {
 public:
  std::string_view name() const override { return "power_of_two"; }
  RoutingDecision Decide(const PolicyInput& input) const override;
};

}  // namespace ember::router
