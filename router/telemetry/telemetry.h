// Telemetry: tells of each finished request to all that listen: metrics, explain, and, where they
// are asked for, the access log and a collector of spans.
//
// Concurrency: the router's loop thread; Open, Close and ReopenLog from the owner's, Open before
// any request and Close after the last. What it refers to must outlive it.
#pragma once

#include <memory>
#include <optional>

#include "client/http/request.h"
#include "router/telemetry/access_log.h"
#include "router/telemetry/explain_log.h"
#include "router/telemetry/otlp_exporter.h"
#include "router/telemetry/router_metrics.h"

namespace ember::router {

struct TelemetryOptions {
  std::string access_log;  // a file's name, "-" for standard output; empty: none
  std::optional<OtlpOptions> otlp;
};

class Telemetry {
 public:
  Telemetry(RouterMetrics& metrics, ExplainLog& explain, RandomSource& random)
      : metrics_(metrics), explain_(explain), random_(random) {}

  // kUnavailable: the access log can't be opened.
  Status Open(const TelemetryOptions& options, http::HttpLoop& loop, http::UpstreamPool& pool);
  // Writes and sends what is queued, within seconds. The loop must still run. Idempotent.
  void Close();
  // After the access log's file was renamed.
  void ReopenLog();

  // What is known of a request when it comes, and its id: its own x-ember-request-id, else
  // x-request-id, where that is 1-64 of letters, digits, "._-", else a new one.
  void Begin(const http::Request& request, RequestRecord* record) const;
  // That id in its reply's head: under our name, and, where the replica gave it none of its own,
  // under the one that clients look for.
  static void NameReply(const RequestRecord& record, http::Headers* headers);
  // Its place in a trace, when there is a collector.
  void BeginTrace(const http::Request& request, RequestRecord* record) const;
  void Finish(RequestRecord record);
  // The sequence number of the newest finished request.
  uint64_t finished() const { return finished_; }

 private:
  RouterMetrics& metrics_;
  ExplainLog& explain_;
  RandomSource& random_;
  std::unique_ptr<AccessLog> access_log_;
  std::unique_ptr<OtlpExporter> otlp_;
  uint64_t finished_ = 0;
};

}  // namespace ember::router
