#include "client/agent/agent_metrics.h"

namespace ember::agent {

const char* CacheFailureName(CacheFailure failure) {
  static constexpr std::array<const char*, kCacheFailureCount> kNames = {
      "tokenize",       "tokens_differ",  "belief_wrong", "join_refused",
      "restore_failed", "restore_unused", "save_failed",  "save_refused",
      "erase_failed",   "store_timeout",  "push_failed",  "push_dropped"};
  return kNames[static_cast<size_t>(failure)];
}

const char* PrefetchOutcomeName(PrefetchOutcome outcome) {
  static constexpr std::array<const char*, kPrefetchOutcomeCount> kNames = {
      "transferred", "already_there", "no_room", "nothing", "failed", "not_wanted"};
  return kNames[static_cast<size_t>(outcome)];
}

AgentMetrics::AgentMetrics(MetricsRegistry& r)
    : registry(r),
      cached_tokens(r.AddCounter("ember_agent_cached_tokens_total",
                                 "Prompt tokens reused, as the engine counted them")),
      computed_tokens(r.AddCounter("ember_agent_computed_tokens_total",
                                   "Prompt tokens computed, as the engine counted them")),
      loaded_tokens(
          r.AddCounter("ember_agent_loaded_tokens_total", "Prompt tokens restored from the store")),
      loaded_bytes(r.AddCounter("ember_agent_loaded_bytes_total", "Bytes loaded from the store")),
      prefetch_bytes(r.AddCounter("ember_agent_prefetch_bytes_total",
                                  "Bytes received ahead of the load that would want them")),
      prefetch_used_bytes(r.AddCounter("ember_agent_prefetch_used_bytes_total",
                                       "Bytes that loads found received; again when used again")),
      prefetch_wasted_bytes(r.AddCounter("ember_agent_prefetch_wasted_bytes_total",
                                         "Bytes received ahead that no load used")),
      prefetch_held_bytes(r.AddGauge("ember_agent_prefetch_held_bytes",
                                     "Memory of segments received or being received ahead")),
      pushed_segments(r.AddCounter("ember_agent_pushed_segments_total",
                                   "Segments that the store did not have and now has")),
      pushed_bytes(r.AddCounter("ember_agent_pushed_bytes_total", "Payload bytes of those")),
      engine_losses(
          r.AddCounter("ember_agent_engine_losses_total", "Times the engine was found to be gone")),
      overhead(r.AddHistogram("ember_agent_overhead_seconds",
                              "From a request's arrival until it went to the engine")),
      match(r.AddHistogram("ember_agent_match_seconds", "Asking the store what it has")),
      transfer(r.AddHistogram("ember_agent_transfer_seconds", "Receiving segments")),
      rebuild(r.AddHistogram("ember_agent_rebuild_seconds", "Writing and checking a slot file")),
      restore(r.AddHistogram("ember_agent_restore_seconds", "The engine reading a slot file")),
      save(r.AddHistogram("ember_agent_save_seconds", "The engine writing a slot file")),
      first_byte(r.AddHistogram("ember_agent_first_byte_seconds",
                                "From a request's arrival until its reply's first byte")),
      prefetch_saved(r.AddHistogram("ember_agent_prefetch_saved_seconds",
                                    "Transfer time that a load was spared, each such load")) {
  for (size_t i = 0; i < failures.size(); ++i) {
    failures[i] = &r.AddCounter("ember_agent_cache_failures_total",
                                "Times the cache could not help; each cost a recompute at most",
                                {{"what", CacheFailureName(static_cast<CacheFailure>(i))}});
  }
  for (size_t i = 0; i < routes.size(); ++i) {
    routes[i] =
        &r.AddCounter("ember_agent_requests_total", "Completions by where their prefix came from",
                      {{"route", RouteName(static_cast<Route>(i))}});
  }
  for (size_t i = 0; i < prefetches.size(); ++i) {
    prefetches[i] =
        &r.AddCounter("ember_agent_prefetches_total",
                      "Transfers asked for ahead of their load, by what became of them",
                      {{"outcome", PrefetchOutcomeName(static_cast<PrefetchOutcome>(i))}});
  }
  for (size_t i = 0; i < misses.size(); ++i) {
    misses[i] =
        &r.AddCounter("ember_agent_store_misses_total",
                      "First segment of a prompt that the store lacked, by reason",
                      {{"reason", std::string(MissReasonName(static_cast<MissReason>(i)))}});
  }
}

Counter& AgentMetrics::Bypassed(const std::string& reason) {
  return registry.AddCounter("ember_agent_bypassed_total", "Requests that the cache stayed out of",
                             {{"reason", reason}});
}

}  // namespace ember::agent
