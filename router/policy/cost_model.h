// Cost model: the predicted time to first token of one request at one replica, in ms. A pure
// function, any thread.
//
//   queue   = prefill of the tokens ahead of it + waiting for a slot when none is free
//   load    = tokens of the store's prefix beyond the replica's own / its measured rate
//   prefill = what is left, after that much context
#pragma once

#include "router/policy/policy.h"

namespace ember::router {

// A match in the replica's memory shorter than this is not worth following: every chat shares its
// template's first tokens.
inline constexpr uint64_t kMinMatchTokens = 64;

CandidateCost CostOf(const Candidate& candidate, const PolicyInput& input);

}  // namespace ember::router
