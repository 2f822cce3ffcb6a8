// Telemetry: tells of each finished request to all that listen: metrics, explain, and, where they
// are asked for, the access log and spans. The router's loop thread; what it refers to must outlive
// it.
#pragma once

#include "router/telemetry/explain_log.h"
#include "router/telemetry/router_metrics.h"

namespace ember::router {

class Telemetry {
 public:
  Telemetry(RouterMetrics& metrics, ExplainLog& explain) : metrics_(metrics), explain_(explain) {}

  void Finish(RequestRecord record);
  // The sequence number of the newest finished request.
  uint64_t finished() const { return finished_; }

 private:
  RouterMetrics& metrics_;
  ExplainLog& explain_;
  uint64_t finished_ = 0;
};

}  // namespace ember::router
