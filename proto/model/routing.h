// What routing speaks of: replicas, how much of a prefix each holds, and the decision.
// Plain values: policies are pure functions over them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "proto/model/kv_namespace.h"

namespace ember {

// Work at a replica, from its own reports.
struct ReplicaLoad {
  uint32_t slots_total = 0;
  uint32_t running = 0;
  uint32_t waiting = 0;
  uint64_t pending_prefill_tokens = 0;  // not yet computed, of running and waiting requests
  double kv_usage = 0;  // share of its cache that running requests hold, so that nothing evicts it
};

// T(n tokens after c cached) = base_ms + linear_ms * n + context_ms * n * (c + n/2), fitted from
// replies.
struct PrefillModel {
  double linear_ms = 5.0;   // ms per token
  double context_ms = 0.0;  // ms per token and context token
  double base_ms = 0.0;     // ms per request
  double PredictMs(uint64_t new_tokens, uint64_t cached_tokens) const {
    const double n = static_cast<double>(new_tokens);
    return base_ms + n * (linear_ms + context_ms * (static_cast<double>(cached_tokens) + n / 2));
  }
};

// What a prefill model rests on.
enum class PrefillBasis : uint8_t {
  kNone,    // nothing: it is a guess
  kLittle,  // few replies, or none that showed where its prefill ended
  kStale,   // replies, but none of the last minute
  kEnough,  // replies of the last minute, or the replica's own word
};

// A replica's prefix cache as a whole, as far as it is known.
struct ReplicaCache {
  uint64_t capacity_tokens = 0;    // 0: unknown, and then taken to be without end
  uint64_t held_tokens = 0;        // as the index knows
  double churn_tokens_per_ms = 0;  // new tokens that come into it, lately
  double reuse = 0;            // share of its prompts' tokens that it found cached, lately: 0..1
  uint32_t beyond_tokens = 0;  // that it lately found beyond what a match had said
};

// An inference engine, or one of its data-parallel ranks, as routing sees it: never a copy of data.
struct Replica {
  std::string id;
  std::optional<uint32_t> rank;  // nothing: the engine has but one. Ranks of one engine share `id`
  bool healthy = false;
  double weight = 1;  // of its strength beside the others', for policies that know no rates
  ReplicaLoad load;
  PrefillModel prefill;
  PrefillBasis prefill_basis = PrefillBasis::kNone;  // less than others have: theirs is better
  double load_tokens_per_ms = 0;       // measured store-to-engine rate; 0 = cannot load
  double load_tail_tokens_per_ms = 0;  // of the slowest tenth of loads; 0: unknown
  double copy_tokens_per_ms = 0;       // from its own host memory or disk; 0: unknown
  ReplicaCache cache;
  double requests_per_ms = 0;     // sent to it by us, lately
  uint32_t in_flight = 0;         // our own requests not yet in its report
  double backlog_ms = 0;          // prefill ahead of a new request: ours, and others' as reported
  double typical_prefill_ms = 0;  // of a request's own load and prefill, lately; 0: unknown
  uint32_t tokens_per_block = 0;
};

// How much of one prompt's prefix one holder has, unbroken from the start.
struct PrefixMatch {
  uint32_t device_tokens = 0;    // in the replica's own memory
  uint32_t any_tier_tokens = 0;  // its host memory and disk counted as well; less: no such tiers
  // In the store under the names that it uses; nothing: as much as PolicyInput says.
  std::optional<uint32_t> store_tokens{};
};

enum class Route : uint8_t { kLocal, kRemote, kRecompute };
inline const char* RouteName(Route r) {
  return r == Route::kLocal ? "local" : r == Route::kRemote ? "remote" : "recompute";
}

// What one candidate would cost, part by part. ttft = queue + load + prefill is what is predicted;
// total = ttft + tail + displacement - exploration + crowding is what is compared.
struct CandidateCost {
  std::string replica;
  std::optional<uint32_t> rank;
  double queue_ms = 0;
  double load_ms = 0;  // from the store, and from its own slower tiers
  double prefill_ms = 0;
  double tail_ms = 0;          // for the risk of a slow load
  double displacement_ms = 0;  // work lost later by what is evicted for it
  double exploration_ms = 0;   // work gained later by what is learned and becomes warm
  double crowding_ms = 0;      // what those who come after it wait for its work
  double total_ms = 0;
  double ttft_ms = 0;
  uint32_t local_tokens = 0;   // of the replica's own, slower tiers counted, that it would use
  uint32_t remote_tokens = 0;  // of the store's prefix beyond the replica's own that it would load
};

struct RoutingDecision {
  size_t candidate = 0;  // index of the chosen one among those given
  std::string replica;
  std::optional<uint32_t> rank;
  std::string policy;
  std::string reason;  // for people and `explain`
  Route predicted_route = Route::kRecompute;
  std::vector<CandidateCost> candidates;  // as given, in their order; empty: not costed
};

}  // namespace ember
