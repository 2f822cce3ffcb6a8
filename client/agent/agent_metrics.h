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

// What became of a transfer that was to run ahead of its load.
enum class PrefetchOutcome : uint8_t {
  kTransferred,
  kAlreadyThere,  // or under way for another
  kNoRoom,        // in the cache, or in the line
  kNothing,       // the store has none of it, or the prompt is not for the cache
  kFailed,        // nothing of what was matched arrived
  kNotWanted,     // its request was gone before its turn came
};
inline constexpr size_t kPrefetchOutcomeCount = 6;
const char* PrefetchOutcomeName(PrefetchOutcome outcome);

struct AgentMetrics {
  explicit AgentMetrics(MetricsRegistry& registry);

  Counter& Failure(CacheFailure failure) { return *failures[static_cast<size_t>(failure)]; }
  Counter& Routed(Route route) { return *routes[static_cast<size_t>(route)]; }
  Counter& Prefetched(PrefetchOutcome outcome) { return *prefetches[static_cast<size_t>(outcome)]; }
  // Requests that the cache stayed out of.
  Counter& Bypassed(const std::string& reason);

  MetricsRegistry& registry;
  std::array<Counter*, kCacheFailureCount> failures;
  std::array<Counter*, 3> routes;
  std::array<Counter*, kMissReasonCount> misses;
  std::array<Counter*, kPrefetchOutcomeCount> prefetches;
  Counter& cached_tokens;
  Counter& computed_tokens;
  Counter& loaded_tokens;
  Counter& loaded_bytes;
  Counter& prefetch_bytes;
  Counter& prefetch_used_bytes;
  Counter& prefetch_wasted_bytes;
  Gauge& prefetch_held_bytes;
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
  Histogram& prefetch_saved;
};

}  // namespace ember::agent
