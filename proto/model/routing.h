// What routing speaks of: replicas, how much of a prefix each holds, and the decision.
// Plain values: policies are pure functions over them.
#pragma once

#include <cstdint>
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
};

// T(n tokens after c cached) = linear_ms * n + context_ms * n * (c + n/2), fitted from replies.
struct PrefillModel {
  double linear_ms = 5.0;   // ms per token
  double context_ms = 0.0;  // ms per token and context token
  double PredictMs(uint64_t new_tokens, uint64_t cached_tokens) const {
    const double n = static_cast<double>(new_tokens);
    return n * (linear_ms + context_ms * (static_cast<double>(cached_tokens) + n / 2));
  }
};

// An inference engine as routing sees it: never a copy of data.
struct Replica {
  std::string id;
  NamespaceId ns;
  bool healthy = false;
  ReplicaLoad load;
  PrefillModel prefill;
  double load_tokens_per_ms = 0;  // measured store-to-engine rate; 0 = cannot load
  uint32_t in_flight = 0;         // our own requests not yet in its report
  uint64_t in_flight_prefill_tokens = 0;
  uint32_t tokens_per_block = 0;
};

// How much of one prompt's prefix one holder has, unbroken from the start.
struct PrefixMatch {
  uint32_t device_tokens = 0;  // in the replica's own memory
};

enum class Route : uint8_t { kLocal, kRemote, kRecompute };
inline const char* RouteName(Route r) {
  return r == Route::kLocal ? "local" : r == Route::kRemote ? "remote" : "recompute";
}

struct CandidateCost {
  std::string replica;
  double queue_ms = 0;
  double load_ms = 0;
  double prefill_ms = 0;
  double total_ms = 0;
  uint32_t local_tokens = 0;
  uint32_t remote_tokens = 0;  // of the store's prefix beyond the replica's own that it would load
};

struct RoutingDecision {
  std::string replica;
  std::string policy;
  std::string reason;  // for people and `explain`
  Route predicted_route = Route::kRecompute;
  std::vector<CandidateCost> candidates;
};

}  // namespace ember
