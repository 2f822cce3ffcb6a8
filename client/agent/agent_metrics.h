// AgentMetrics: what the agent counts, made once at start. Any thread.
#pragma once

#include <array>

#include "proto/base/metrics.h"
#include "proto/model/miss_reason.h"
#include "proto/model/routing.h"

namespace ember::agent {

// What went wrong on the cache's side of a request. Each costs a recompute, never an answer.
enum class CacheFailure : uint8_t {
  kTokenize,       // the engine would not tell the prompt's tokens
  kTokensDiffer,   // the engine computed other tokens than it had told
  kBeliefWrong,    // the engine had less in the slot than believed: all beliefs were dropped
  kJoinRefused,    // what the store gave did not make a slot file
  kRestoreFailed,  // the engine refused the slot file; the slot was erased
  kRestoreUnused,  // the engine restored it and then reused nothing of it
  kSaveFailed,     // the engine could not save the slot
  kSaveRefused,    // what it saved is no slot file that we understand
  kEraseFailed,
  kStoreTimeout,  // the store did not answer in time; it is left alone for a while
  kPushFailed,
  kPushDropped,  // the queue of pushes was full
};
inline constexpr size_t kCacheFailureCount = 12;
const char* CacheFailureName(CacheFailure failure);

struct AgentMetrics {
  explicit AgentMetrics(MetricsRegistry& registry);

  Counter& Failure(CacheFailure failure) { return *failures[static_cast<size_t>(failure)]; }
  Counter& Routed(Route route) { return *routes[static_cast<size_t>(route)]; }
  // Requests that the cache stayed out of.
  Counter& Bypassed(const std::string& reason);

  MetricsRegistry& registry;
  std::array<Counter*, kCacheFailureCount> failures;
  std::array<Counter*, 3> routes;
  std::array<Counter*, kMissReasonCount> misses;
  Counter& cached_tokens;
  Counter& computed_tokens;
  Counter& loaded_tokens;
  Counter& loaded_bytes;
  Counter& pushed_segments;
  Counter& pushed_bytes;
  Counter& engine_losses;
  Histogram& overhead;
  Histogram& match;
  Histogram& transfer;
  Histogram& rebuild;
  Histogram& restore;
  Histogram& save;
  Histogram& first_byte;
};

}  // namespace ember::agent
