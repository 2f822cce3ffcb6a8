#include "kvstore/server/server_metrics.h"

namespace ember::kv {

ServerMetrics::ServerMetrics(MetricsRegistry* r, const MetricLabels& l)
    : bytes_in(
          r->AddCounter("ember_store_received_bytes_total", "Payload bytes of puts received", l)),
      bytes_out(r->AddCounter("ember_store_sent_bytes_total", "Payload bytes of gets sent", l)),
      shm_gets(r->AddCounter("ember_store_shm_gets_total",
                             "Segments read in the shared memory by clients on this host", l)),
      shm_bytes(r->AddCounter("ember_store_shm_bytes_total",
                              "Payload bytes read in the shared memory instead of being sent", l)),
      discarded_bytes(r->AddCounter("ember_store_discarded_bytes_total",
                                    "Payload bytes received for puts that were not open", l)),
      accepted(
          r->AddCounter("ember_store_connections_accepted_total", "Data connections accepted", l)),
      refused(r->AddCounter("ember_store_connections_refused_total",
                            "Data connections refused over the limit", l)),
      protocol_errors(r->AddCounter("ember_store_protocol_errors_total",
                                    "Data connections closed for breaking the protocol", l)),
      timeouts(r->AddCounter("ember_store_connection_timeouts_total",
                             "Data connections closed because the peer was too slow or silent", l)),
      connections(r->AddGauge("ember_store_connections", "Data connections open", l)),
      no_reuse(r->AddGauge("ember_store_no_reuse",
                           "1 while segments are stored and looked up and none is ever found", l)),
      match_seconds(r->AddHistogram("ember_store_match_seconds", "Time of a match request", l)),
      get_seconds(r->AddHistogram("ember_store_get_seconds",
                                  "Time of a get request until its last byte was taken", l)),
      put_seconds(r->AddHistogram("ember_store_put_seconds", "Time from reserve to commit", l)) {}

}  // namespace ember::kv
