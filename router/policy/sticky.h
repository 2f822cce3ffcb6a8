// StickyPolicy: a conversation stays with one replica: rendezvous hashing of X-Conversation-Id,
// bounded by load, so that adding or removing a replica moves only its share and a replica whose
// conversations come all at once sheds the surplus. Without an id the choice is random.
#pragma once

#include "router/policy/policy.h"

namespace ember::router {

class StickyPolicy final : public Policy {
 public:
  std::string_view name() const override { return "sticky"; }
  RoutingDecision Decide(const PolicyInput& input) const override;
};

}  // namespace ember::router
