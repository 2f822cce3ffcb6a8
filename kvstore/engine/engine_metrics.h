// EngineMetrics: a shard's counters and gauges, made once from the node's registry.
#pragma once

#include <array>

#include "proto/base/metrics.h"
#include "proto/model/miss_reason.h"

namespace ember::kv {

class EngineMetrics {
 public:
  // `labels` tell the shard.
  explicit EngineMetrics(MetricsRegistry* registry, const MetricLabels& labels = {});

  Counter& hits;  // keys that match or get found
  std::array<Counter*, kMissReasonCount> misses{};
  uint64_t TotalMisses() const;

  // How puts ended; every reservation asked for ends in exactly one of these.
  Counter& put_stored;
  Counter& put_have;  // it was there already, at reserve or at commit
  Counter& put_busy;  // another writer was at it, or a bound was reached
  Counter& put_no_space;
  Counter& put_invalid;  // a malformed header or write, or too large
  Counter& put_corrupt;  // the bytes that arrived differ from the writer's checksum
  Counter& put_aborted;  // by the writer, or its connection ended
  Counter& put_expired;
  Counter& put_purged;  // its scope was purged meanwhile

  Counter& evictions;
  Counter& evicted_bytes;
  Counter& expired_segments;
  Counter& purged_segments;
  Counter& purges;
  Counter& corruptions;        // stored bytes found changed, and dropped
  Counter& false_corruptions;  // readers' reports that did not hold here

  Gauge& capacity_bytes;
  Gauge& used_bytes;
  Gauge& segments;
  Gauge& attempts_open;
  Gauge& leases_open;
  Gauge& pinned_segments;
  Gauge& tombstones;
  Gauge& purge_epoch;
};

}  // namespace ember::kv
