// RandomPolicy: any candidate, as likely as its weight says.
#pragma once

#include "router/policy/policy.h"

namespace ember::router {

class RandomPolicy final : public Policy {
 public:
  std::string_view name() const override { return "random"; }
  RoutingDecision Decide(const PolicyInput& input) const override;
};

}  // namespace ember::router
