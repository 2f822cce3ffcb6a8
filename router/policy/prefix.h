// PrefixPolicy: affinity only: the longest prefix in a replica's own memory, ties by load. Knows
// neither queues nor the store; it is here to be compared with.
#pragma once

#include "router/policy/policy.h"

namespace ember::router {

class PrefixPolicy final : public Policy {
 public:
  std::string_view name() const override { return "prefix"; }
  bool needs_tokens() const override { return true; }
  RoutingDecision Decide(const PolicyInput& input) const override;
};

}  // namespace ember::router
