#include "router/policy/prefix.h"

#include <vector>

#include "router/policy/load.h"

namespace ember::router {

RoutingDecision PrefixPolicy::Decide(const PolicyInput& input) const {
  uint32_t longest = 0;
  for (const Candidate& c : input.candidates) longest = std::max(longest, c.match.device_tokens);
  std::vector<Candidate> best;
  std::vector<size_t> at;
  for (size_t i = 0; i < input.candidates.size(); ++i) {
    if (input.candidates[i].match.device_tokens != longest) continue;
    best.push_back(input.candidates[i]);
    at.push_back(i);
  }
  const size_t chosen = at[LeastLoaded(best, input.draw)];
  std::string reason = !input.tokens_known ? "no_tokens: least load"
                       : longest == 0      ? "no_match: least load"
                                           : "longest_match: " + std::to_string(longest) + " of " +
                                            std::to_string(input.prompt_tokens) + " tokens";
  RoutingDecision decision = DecisionFor(*this, input, chosen, std::move(reason));
  if (longest > 0) decision.predicted_route = Route::kLocal;
  for (const Candidate& c : input.candidates) {
    decision.candidates.push_back(
        {.replica = c.replica->id, .rank = c.replica->rank, .local_tokens = c.match.device_tokens});
  }
  return decision;
}

}  // namespace ember::router
