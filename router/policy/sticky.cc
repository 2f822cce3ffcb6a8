#include "router/policy/sticky.h"

#include <algorithm>
#include <string>
#include <vector>

#include "proto/base/checksum.h"
#include "router/policy/load.h"

namespace ember::router {
namespace {

// A replica takes a conversation as long as it stays within this much of the mean load (Mirrokni,
// Thorup, Zadimoghaddam, "Consistent hashing with bounded loads", 2016) or has a free slot.
constexpr uint64_t kBoundPercent = 125;

// Highest random weight: each replica's own hash of the id, so that a replica's coming or going
// changes only the conversations that it wins or won.
uint64_t WeightOf(std::string_view conversation, const std::string& replica) {
  std::string key;
  key.reserve(conversation.size() + 1 + replica.size());
  key.append(replica).push_back('\0');
  key.append(conversation);
  return Xxh3Of64(AsBytes(key));
}

uint64_t BoundOf(std::span<const Candidate> candidates) {
  uint64_t total = 1;  // the request itself
  for (const Candidate& c : candidates) total += LoadOf(*c.replica);
  const uint64_t n = candidates.size() * 100;
  return (total * kBoundPercent + n - 1) / n;
}

}  // namespace

RoutingDecision StickyPolicy::Decide(const PolicyInput& input) const {
  if (input.conversation_id.empty()) {
    return DecisionFor(*this, input, input.draw % input.candidates.size(), "no_conversation_id");
  }
  std::vector<std::pair<uint64_t, size_t>> order;
  order.reserve(input.candidates.size());
  for (size_t i = 0; i < input.candidates.size(); ++i) {
    order.emplace_back(WeightOf(input.conversation_id, input.candidates[i].replica->id), i);
  }
  std::sort(order.begin(), order.end(), std::greater<>());
  const uint64_t bound = BoundOf(input.candidates);
  for (const auto& [weight, i] : order) {
    const Replica& replica = *input.candidates[i].replica;
    if (LoadOf(replica) + 1 > std::max<uint64_t>(bound, replica.load.slots_total)) continue;
    if (i == order.front().second) return DecisionFor(*this, input, i, "conversation");
    return DecisionFor(*this, input, i,
                       "conversation_overflow: its replica " +
                           input.candidates[order.front().second].replica->id +
                           " is over the bound");
  }
  return DecisionFor(*this, input, LeastLoaded(input.candidates, input.draw), "least_load");
}

}  // namespace ember::router
