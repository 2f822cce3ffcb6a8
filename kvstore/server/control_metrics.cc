#include "kvstore/server/control_metrics.h"

namespace ember::kv {

ControlMetrics::ControlMetrics(MetricsRegistry* r)
    : feed_readers(r->AddGauge("ember_store_feed_readers", "Readers of the feed connected")),
      feed_batches(r->AddCounter("ember_store_feed_batches_total",
                                 "Batches of events and snapshot parts sent to readers")),
      feed_snapshots(
          r->AddCounter("ember_store_feed_snapshots_total", "Snapshots begun for readers")),
      feed_overtaken(r->AddCounter("ember_store_feed_overtaken_total",
                                   "Times a reader fell behind the ring of events")),
      feed_cut_off(r->AddCounter("ember_store_feed_cut_off_total",
                                 "Readers cut off for taking nothing while others wait")),
      feed_refused(
          r->AddCounter("ember_store_feed_refused_total", "Readers refused over the limit")),
      data_calls(r->AddGauge("ember_store_grpc_data_calls", "Data calls over gRPC in flight")),
      data_refused(r->AddCounter("ember_store_grpc_data_refused_total",
                                 "Data calls over gRPC refused over the limit")),
      data_invalid(r->AddCounter("ember_store_grpc_data_invalid_total",
                                 "Data calls over gRPC ended for breaking the protocol")),
      bytes_in(r->AddCounter("ember_store_grpc_received_bytes_total",
                             "Payload bytes of puts received over gRPC")),
      bytes_out(r->AddCounter("ember_store_grpc_sent_bytes_total",
                              "Payload bytes of gets sent over gRPC")) {}

}  // namespace ember::kv
