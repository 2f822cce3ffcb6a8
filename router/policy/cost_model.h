// CostModel: the predicted cost of one request at each of its candidates, in ms. A pure function of
// a PolicyInput; any thread. router/policy/README.md derives each term.
//
//   queue        = prefill ahead of it + waiting for a slot, and for memory, when none is free
//   load         = tokens of the replica's slower tiers and of the store's prefix beyond its own,
//                  over their measured rates, when that takes less than computing them
//   prefill      = what is left, after that much context
//   tail         = half of what the slowest tenth of loads takes longer
//   displacement = tokens evicted for it * chance that they are asked for again * time to recompute
//   exploration  = what a shared prefix in free memory and a replica's first replies are worth
#pragma once

#include <optional>

#include "router/policy/policy.h"

namespace ember::router {

// A match in the replica's memory shorter than this is not worth following: every chat shares its
// template's first tokens.
inline constexpr uint64_t kMinMatchTokens = 64;

class CostModel {
 public:
  // `input` must outlive it.
  explicit CostModel(const PolicyInput& input);

  CandidateCost Of(const Candidate& candidate) const;

 private:
  // The cheapest way to the prompt's state: fills in load, prefill, tail and tokens.
  void ChooseLoad(const Candidate& candidate, const PrefillModel& prefill,
                  CandidateCost* cost) const;
  void AddDisplacement(const Replica& replica, const PrefillModel& prefill,
                       CandidateCost* cost) const;

  const PolicyInput& input_;
  PrefillBasis best_basis_ = PrefillBasis::kNone;
  std::optional<PrefillModel> typical_;  // of the candidates of that basis, unless it is none
  uint32_t beyond_tokens_ = 0;           // the median of the same
  double mean_churn_ = 0;
  double mean_free_ = 0;         // share of a cache
  double behind_ = 0;            // requests that will wait for what is computed now
  uint64_t longest_tokens_ = 0;  // of the candidates' matches
  uint64_t shared_tokens_ = 0;   // that at least two candidates hold
};

}  // namespace ember::router
