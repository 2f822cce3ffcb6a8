#include "kvstore/disk/disk_metrics.h"

namespace ember::kv {
namespace {

MetricLabels With(MetricLabels labels, const char* name, std::string_view value) {
  labels.emplace_back(name, value);
  return labels;
}

Counter& Skipped(MetricsRegistry* r, const MetricLabels& l, const char* reason) {
  return r->AddCounter("ember_store_disk_skipped_segments_total",
                       "Segments not written to disk though the policy wanted it",
                       With(l, "reason", reason));
}
Gauge& Regions(MetricsRegistry* r, const MetricLabels& l, const char* state) {
  return r->AddGauge("ember_store_disk_regions", "Region files by state", With(l, "state", state));
}
Gauge& Degraded(MetricsRegistry* r, const MetricLabels& l, const char* reason) {
  return r->AddGauge("ember_store_disk_degraded",
                     "Shards whose disk tier writes nothing now, by reason",
                     With(l, "reason", reason));
}
Counter& Corruptions(MetricsRegistry* r, const MetricLabels& l, const char* tier) {
  return r->AddCounter("ember_store_scrub_corruptions_total",
                       "Stored segments found changed by a read or the scrubber, and dropped",
                       With(l, "tier", tier));
}

}  // namespace

DiskMetrics::DiskMetrics(MetricsRegistry* r, const MetricLabels& l)
    : hits(r->AddCounter("ember_store_disk_hits_total", "Segments read from disk", l)),
      read_errors(r->AddCounter("ember_store_disk_read_errors_total",
                                "Reads of segments that the disk refused", l)),
      corruptions(Corruptions(r, l, "disk")),
      memory_corruptions(Corruptions(r, l, "memory")),
      read_bytes(r->AddCounter("ember_store_disk_read_bytes_total", "Bytes read for segments", l)),
      written_segments(
          r->AddCounter("ember_store_disk_written_segments_total", "Segments written to disk", l)),
      written_bytes(r->AddCounter("ember_store_disk_written_bytes_total",
                                  "Bytes written for segments, record heads included", l)),
      write_errors(
          r->AddCounter("ember_store_disk_write_errors_total", "Writes that the disk refused", l)),
      skipped_queue_full(Skipped(r, l, "queue_full")),
      skipped_gone(Skipped(r, l, "gone")),
      skipped_degraded(Skipped(r, l, "degraded")),
      evicted_segments(
          r->AddCounter("ember_store_disk_evictions_total", "Segments evicted from disk", l)),
      evicted_bytes(
          r->AddCounter("ember_store_disk_evicted_bytes_total", "Bytes of segments evicted", l)),
      evicted_regions(
          r->AddCounter("ember_store_disk_evicted_regions_total", "Regions evicted from disk", l)),
      written_off_regions(r->AddCounter("ember_store_disk_written_off_regions_total",
                                        "Regions given up after an error of the disk", l)),
      scrubbed_bytes(r->AddCounter("ember_store_scrubbed_bytes_total",
                                   "Bytes that the scrubber has checked", l)),
      lost_records(r->AddCounter("ember_store_disk_lost_records_total",
                                 "Records that were expected at a start or by the scrubber and are "
                                 "not there any more",
                                 l)),
      capacity_bytes(r->AddGauge("ember_store_disk_capacity_bytes", "What --disk allows", l)),
      region_bytes(r->AddGauge("ember_store_disk_region_bytes", "Bytes of all region files", l)),
      live_bytes(r->AddGauge("ember_store_disk_live_bytes", "Bytes of the segments on disk", l)),
      segments(r->AddGauge("ember_store_disk_segments", "Segments on disk", l)),
      regions_open(Regions(r, l, "open")),
      regions_sealed(Regions(r, l, "sealed")),
      regions_free(Regions(r, l, "free")),
      queue_bytes(r->AddGauge("ember_store_disk_queue_bytes",
                              "Bytes of segments that wait to be written", l)),
      degraded_no_space(Degraded(r, l, "no_space")),
      degraded_io_error(Degraded(r, l, "io_error")),
      catalog_behind(r->AddGauge("ember_store_disk_catalog_pending_rows",
                                 "Rows that wait to be written to the catalog", l)),
      read_seconds(r->AddHistogram("ember_store_disk_read_seconds",
                                   "Time to read and check a segment from disk", l)),
      write_seconds(
          r->AddHistogram("ember_store_disk_write_seconds", "Time to write a segment", l)),
      sync_seconds(r->AddHistogram("ember_store_disk_sync_seconds", "Time of a sync", l)) {}

}  // namespace ember::kv
