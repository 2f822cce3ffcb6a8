// CacheAwarePolicy: the candidate where the first token is predicted to come soonest
// (cost_model.h); costs that are nearly equal are decided by load.
#pragma once

#include "router/policy/policy.h"

namespace ember::router {

class CacheAwarePolicy final : public Policy {
 public:
  std::string_view name() const override { return "cache_aware"; }
  bool needs_tokens() const override { return true; }
  RoutingDecision Decide(const PolicyInput& input) const override;
};

}  // namespace ember::router
