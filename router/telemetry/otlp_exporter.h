// OtlpExporter: sends the spans of sampled requests to a collector, in batches, by OTLP over HTTP
// with JSON. One that has no time now is asked again, a few times; else a collector that is slow or
// away loses spans, which are counted; requests never wait.
//
// Concurrency: Add from any thread. Life: what it sends through (`loop`, `pool`) must outlive it
// and run until it is destroyed; the destructor sends what is queued, each batch
// once, or gives up within the deadline of a try.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "client/http/loop.h"
#include "client/http/upstream_pool.h"
#include "router/telemetry/otlp_json.h"
#include "router/telemetry/record_worker.h"

namespace ember::router {

struct OtlpOptions {
  http::Origin collector;
  std::string target = "/v1/traces";
  double sample = 1;  // share of the traces that begin here; a sender's choice is obeyed
  Duration deadline = seconds(3);     // of one try
  Duration retry_delay = seconds(1);  // before the second try of a batch; then twice as long ...
  Duration max_retry_delay = seconds(30);  // ... and the most that a collector may ask for
  int max_tries = 5;
  RecordWorkerOptions queue;

  // "http://host:4318/v1/traces"; without a path that of the standard is taken. kInvalid with the
  // reason.
  static Result<OtlpOptions> Parse(std::string_view endpoint);
};

class OtlpExporter {
 public:
  OtlpExporter(OtlpOptions options, OtlpResource resource, http::HttpLoop& loop,
               http::UpstreamPool& pool, MetricsRegistry& registry);
  ~OtlpExporter();

  double sample() const { return options_.sample; }
  void Add(FinishedRequest record) { worker_.Add(std::move(record)); }

 private:
  void Send(const std::vector<FinishedRequest>& batch);
  // OK: the collector took it. Blocks. `retry_after`: set when the collector wants it again.
  Status Post(const std::string& json, std::optional<Duration>* retry_after);
  // Tries it as often as the collector wants it.
  Status PostAgain(const std::string& json);

  const OtlpOptions options_;
  const OtlpResource resource_;
  http::HttpLoop& loop_;
  http::UpstreamPool& pool_;
  Counter& sent_;
  Counter& dropped_;
  Counter& queue_full_;
  bool failing_ = false;  // the last batch was not taken, and the log was told
  std::mutex mutex_;
  std::condition_variable changed_;
  bool closing_ = false;
  RecordWorker worker_;  // last: its thread uses the rest
};

}  // namespace ember::router
