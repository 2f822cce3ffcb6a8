// RoundRobinPolicy: each candidate in turn.
#pragma once

#include "router/policy/policy.h"

namespace ember::router {

class RoundRobinPolicy final : public Policy {
 public:
  std::string_view name() const override { return "round_robin"; }
  RoutingDecision Decide(const PolicyInput& input) const override;
};

}  // namespace ember::router
