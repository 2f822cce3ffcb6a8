#include "kvstore/engine/engine_metrics.h"

namespace ember::kv {
namespace {

MetricLabels With(MetricLabels labels, const char* name, std::string_view value) {
  labels.emplace_back(name, value);
  return labels;
}

Counter& Put(MetricsRegistry* registry, const MetricLabels& labels, const char* result) {
  return registry->AddCounter("ember_store_puts_total", "Segments offered, by how it ended",
                              With(labels, "result", result));
}

}  // namespace

EngineMetrics::EngineMetrics(MetricsRegistry* r, const MetricLabels& l)
    : hits(r->AddCounter("ember_store_hits_total", "Keys found by match or get", l)),
      put_stored(Put(r, l, "stored")),
      put_have(Put(r, l, "have")),
      put_busy(Put(r, l, "busy")),
      put_no_space(Put(r, l, "no_space")),
      put_invalid(Put(r, l, "invalid")),
      put_corrupt(Put(r, l, "corrupt")),
      put_aborted(Put(r, l, "aborted")),
      put_expired(Put(r, l, "expired")),
      put_purged(Put(r, l, "purged")),
      evictions(r->AddCounter("ember_store_evictions_total", "Segments evicted to make room", l)),
      evicted_bytes(
          r->AddCounter("ember_store_evicted_bytes_total", "Memory freed by eviction", l)),
      expired_segments(r->AddCounter("ember_store_expired_segments_total",
                                     "Stored segments whose time to live was over", l)),
      purged_segments(r->AddCounter("ember_store_purged_segments_total",
                                    "Stored segments that purges took", l)),
      purges(r->AddCounter("ember_store_purges_total", "Purges carried out", l)),
      corruptions(r->AddCounter("ember_store_corruptions_total",
                                "Stored segments whose bytes had changed; they were dropped", l)),
      false_corruptions(r->AddCounter("ember_store_false_corruption_reports_total",
                                      "Readers' reports of bad bytes that were right here", l)),
      capacity_bytes(r->AddGauge("ember_store_memory_capacity_bytes", "Cap of segment memory", l)),
      used_bytes(r->AddGauge("ember_store_memory_used_bytes", "Segment memory handed out", l)),
      segments(r->AddGauge("ember_store_segments", "Segments stored", l)),
      attempts_open(
          r->AddGauge("ember_store_attempts_open", "Puts reserved, not yet committed", l)),
      leases_open(r->AddGauge("ember_store_leases_open", "Leases held by readers", l)),
      pinned_segments(r->AddGauge("ember_store_pinned_segments",
                                  "Segments that reads or leases keep from eviction", l)),
      tombstones(r->AddGauge("ember_store_tombstones", "Purged scopes remembered", l)),
      purge_epoch(r->AddGauge("ember_store_purge_epoch", "Newest purge epoch known", l)) {
  for (size_t i = 1; i < kMissReasonCount; ++i) {
    const auto reason = static_cast<MissReason>(i);
    misses[i] = &r->AddCounter("ember_store_misses_total", "Keys not found, by reason",
                               With(l, "reason", MissReasonName(reason)));
  }
}

uint64_t EngineMetrics::TotalMisses() const {
  uint64_t total = 0;
  for (size_t i = 1; i < kMissReasonCount; ++i) total += misses[i]->value();
  return total;
}

}  // namespace ember::kv
