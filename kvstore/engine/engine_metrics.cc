#include "kvstore/engine/engine_metrics.h"

namespace ember::kv {
namespace {

Counter& Put(MetricsRegistry* registry, const char* result) {
  return registry->AddCounter("ember_store_puts_total", "Segments offered, by how it ended",
                              {{"result", result}});
}

}  // namespace

EngineMetrics::EngineMetrics(MetricsRegistry* r)
    : hits(r->AddCounter("ember_store_hits_total", "Keys found by match or get")),
      put_stored(Put(r, "stored")),
      put_have(Put(r, "have")),
      put_busy(Put(r, "busy")),
      put_no_space(Put(r, "no_space")),
      put_invalid(Put(r, "invalid")),
      put_corrupt(Put(r, "corrupt")),
      put_aborted(Put(r, "aborted")),
      put_expired(Put(r, "expired")),
      evictions(r->AddCounter("ember_store_evictions_total", "Segments evicted to make room")),
      evicted_bytes(r->AddCounter("ember_store_evicted_bytes_total", "Memory freed by eviction")),
      corruptions(r->AddCounter("ember_store_corruptions_total",
                                "Stored segments whose bytes had changed; they were dropped")),
      false_corruptions(r->AddCounter("ember_store_false_corruption_reports_total",
                                      "Readers' reports of bad bytes that were right here")),
      capacity_bytes(r->AddGauge("ember_store_memory_capacity_bytes", "Cap of segment memory")),
      used_bytes(r->AddGauge("ember_store_memory_used_bytes", "Segment memory handed out")),
      segments(r->AddGauge("ember_store_segments", "Segments stored")),
      attempts_open(r->AddGauge("ember_store_attempts_open", "Puts reserved, not yet committed")),
      leases_open(r->AddGauge("ember_store_leases_open", "Leases held by readers")),
      pinned_segments(r->AddGauge("ember_store_pinned_segments",
                                  "Segments that reads or leases keep from eviction")) {
  for (size_t i = 1; i < kMissReasonCount; ++i) {
    const auto reason = static_cast<MissReason>(i);
    misses[i] = &r->AddCounter("ember_store_misses_total", "Keys not found, by reason",
                               {{"reason", std::string(MissReasonName(reason))}});
  }
}

uint64_t EngineMetrics::TotalMisses() const {
  uint64_t total = 0;
  for (size_t i = 1; i < kMissReasonCount; ++i) total += misses[i]->value();
  return total;
}

}  // namespace ember::kv
