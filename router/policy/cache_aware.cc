#include "router/policy/cache_aware.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "router/policy/cost_model.h"
#include "router/policy/load.h"

namespace ember::router {
namespace {

// Predictions closer than this are the same: replicas' fitted models differ by noise, and noise
// must not send every cold prompt to one of them.
constexpr double kTieMs = 1;
constexpr double kTieShare = 0.02;

Route RouteOf(const CandidateCost& cost) {
  if (cost.remote_tokens > 0) return Route::kRemote;
  return cost.local_tokens > 0 ? Route::kLocal : Route::kRecompute;
}

std::string ReasonOf(const std::vector<CandidateCost>& costs, size_t chosen, size_t ties,
                     uint64_t prompt_tokens) {
  const CandidateCost& c = costs[chosen];
  std::string reason = fmt::format(
      "{}: {:.1f} ms = queue {:.1f} + load {:.1f} + prefill {:.1f} {:+.1f} for others; {} local "
      "and "
      "{} stored of {} tokens",
      ties > 1 ? "least_load_of_equals" : "lowest_cost", c.total_ms, c.queue_ms, c.load_ms,
      c.prefill_ms, c.total_ms - c.ttft_ms, c.local_tokens, c.remote_tokens, prompt_tokens);
  const CandidateCost* next = nullptr;
  for (size_t i = 0; i < costs.size(); ++i) {
    if (i != chosen && (next == nullptr || costs[i].total_ms < next->total_ms)) next = &costs[i];
  }
  if (next != nullptr) reason += fmt::format("; next {} {:.1f} ms", next->replica, next->total_ms);
  return reason;
}

}  // namespace

RoutingDecision CacheAwarePolicy::Decide(const PolicyInput& input) const {
  if (!input.tokens_known) {
    return DecisionFor(*this, input, LeastLoaded(input.candidates, input.draw),
                       "no_tokens: least load");
  }
  std::vector<CandidateCost> costs;
  costs.reserve(input.candidates.size());
  const CostModel model(input);
  for (const Candidate& c : input.candidates) costs.push_back(model.Of(c));
  const double best =
      std::min_element(costs.begin(), costs.end(), [](const auto& a, const auto& b) {
        return a.total_ms < b.total_ms;
      })->total_ms;
  std::vector<Candidate> equals;
  std::vector<size_t> at;
  for (size_t i = 0; i < costs.size(); ++i) {
    if (costs[i].total_ms > best + std::max(kTieMs, best * kTieShare)) continue;
    equals.push_back(input.candidates[i]);
    at.push_back(i);
  }
  const size_t chosen = at[LeastLoaded(equals, input.draw)];
  RoutingDecision decision = DecisionFor(
      *this, input, chosen, ReasonOf(costs, chosen, equals.size(), input.prompt_tokens));
  decision.predicted_route = RouteOf(costs[chosen]);
  decision.candidates = std::move(costs);
  return decision;
}

}  // namespace ember::router
