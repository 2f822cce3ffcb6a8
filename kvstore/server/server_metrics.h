// ServerMetrics: the data server's counters, made once from the node's registry.
#pragma once

#include "proto/base/metrics.h"

namespace ember::kv {

class ServerMetrics {
 public:
  // `labels` tell the shard.
  explicit ServerMetrics(MetricsRegistry* registry, const MetricLabels& labels = {});

  Counter& bytes_in;         // payload received for puts, wanted or not
  Counter& bytes_out;        // payload sent
  Counter& shm_gets;         // segments read in place by clients on this host
  Counter& shm_bytes;        // of their payloads, which were not sent
  Counter& discarded_bytes;  // of bytes_in: for puts that are not open (any more)
  Counter& accepted;
  Counter& refused;  // over the limit of connections
  Counter& protocol_errors;
  Counter& timeouts;  // connections closed because the peer was too slow or silent
  Gauge& connections;
  Gauge& no_reuse;  // 1 while nothing that is stored is ever found; see ReuseWatch

  Histogram& match_seconds;  // message received to reply made
  Histogram& get_seconds;    // message received to last byte taken by the kernel
  Histogram& put_seconds;    // reserve to commit, as one batch
};

}  // namespace ember::kv
