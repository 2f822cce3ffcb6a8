// DiskMetrics: counters and gauges of one shard's disk tier, made once from the node's registry.
#pragma once

#include "proto/base/metrics.h"

namespace ember::kv {

class DiskMetrics {
 public:
  explicit DiskMetrics(MetricsRegistry* registry, const MetricLabels& labels = {});

  Counter& hits;         // segments read from disk and found whole
  Counter& read_errors;  // the disk said no
  Counter& corruptions;  // what was read is not what was written
  Counter& memory_corruptions;
  Counter& read_bytes;
  Counter& written_segments;
  Counter& written_bytes;
  Counter& write_errors;
  Counter& skipped_queue_full;  // not written: too much was waiting
  Counter& skipped_gone;        // not written: it had left memory before its turn
  Counter& skipped_degraded;    // not written: the disk takes nothing now
  Counter& evicted_segments;
  Counter& evicted_bytes;
  Counter& evicted_regions;
  Counter& written_off_regions;
  Counter& scrubbed_bytes;
  Counter& lost_records;  // in the catalog, but not where it says

  Gauge& capacity_bytes;
  Gauge& region_bytes;  // of the files
  Gauge& live_bytes;
  Gauge& segments;
  Gauge& regions_open;
  Gauge& regions_sealed;
  Gauge& regions_free;
  Gauge& queue_bytes;
  Gauge& degraded_no_space;
  Gauge& degraded_io_error;
  Gauge& catalog_behind;  // batches that are not written yet

  Histogram& read_seconds;
  Histogram& write_seconds;
  Histogram& sync_seconds;
};

}  // namespace ember::kv
