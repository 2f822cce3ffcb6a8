// ControlMetrics: what the gRPC door counts, made once from the node's registry.
#pragma once

#include "proto/base/metrics.h"

namespace ember::kv {

class ControlMetrics {
 public:
  explicit ControlMetrics(MetricsRegistry* registry);

  Gauge& feed_readers;
  Counter& feed_batches;    // sent
  Counter& feed_snapshots;  // begun
  Counter& feed_overtaken;  // of those, because the reader fell behind the ring
  Counter& feed_cut_off;    // readers that took nothing for too long
  Counter& feed_refused;    // readers over the limit

  Gauge& data_calls;      // in flight
  Counter& data_refused;  // calls over the limit
  Counter& data_invalid;  // calls that broke the protocol
  Counter& bytes_in;      // payload of puts
  Counter& bytes_out;     // payload of gets
};

}  // namespace ember::kv
