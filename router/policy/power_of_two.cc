#include "router/policy/power_of_two.h"

#include <fmt/format.h>

#include "router/policy/load.h"

namespace ember::router {

RoutingDecision PowerOfTwoPolicy::Decide(const PolicyInput& input) const {
  const uint64_t n = input.candidates.size();
  if (n == 1) return DecisionFor(*this, input, 0, "only_candidate");
  // Two different ones, each pair as likely as any other: the draw has bits enough for both.
  const size_t first = input.draw % n;
  const size_t second = (first + 1 + (input.draw >> 32) % (n - 1)) % n;
  const double loads[] = {LoadOf(*input.candidates[first].replica),
                          LoadOf(*input.candidates[second].replica)};
  const size_t chosen = loads[0] <= loads[1] ? first : second;
  const size_t other = chosen == first ? second : first;
  return DecisionFor(
      *this, input, chosen,
      fmt::format("less_loaded_of_two: the other was {}", input.candidates[other].replica->id));
}

}  // namespace ember::router
