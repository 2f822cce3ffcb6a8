#include "router/front/router_metrics.h"

namespace ember::router {
namespace {

// 1 us to 10 ms: index and policy take microseconds.
std::vector<double> DecisionSeconds() {
  return {1e-6, 2.5e-6, 5e-6, 1e-5, 2.5e-5, 5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 1e-2};
}

}  // namespace

RouterMetrics::RouterMetrics(MetricsRegistry& r)
    : registry(r),
      in_flight(r.AddGauge("ember_router_in_flight", "Requests under way")),
      index_blocks(r.AddGauge("ember_router_index_blocks", "Blocks that the prefix index knows")),
      refused_busy(r.AddCounter("ember_router_refused_total", "Requests over the limit: 429")),
      client_gone(r.AddCounter("ember_router_client_gone_total",
                               "Requests whose client left before the reply's end")),
      failed_midway(r.AddCounter("ember_router_failed_midway_total",
                                 "Replies that broke after their first byte")),
      decide(r.AddHistogram("ember_router_decide_seconds", "Index lookup and policy", {},
                            DecisionSeconds())),
      first_byte(r.AddHistogram("ember_router_ttft_seconds",
                                "From a streaming request's head to its reply's first byte")),
      prediction_error(r.AddHistogram("ember_router_ttft_error_seconds",
                                      "Predicted against measured time to first token, absolute")) {
}

void RouterMetrics::CountRequest(std::string_view policy, const std::string& replica,
                                 const std::string& route, int status) {
  Counter*& counter = requests_[RequestKey(policy, replica, route, status)];
  if (counter == nullptr) {
    counter = &registry.AddCounter("ember_router_requests_total", "Requests answered",
                                   {{"policy", std::string(policy)},
                                    {"replica", replica},
                                    {"route", route},
                                    {"status", std::to_string(status)}});
  }
  counter->Add();
}

void RouterMetrics::CountRetry(const std::string& reason) {
  registry
      .AddCounter("ember_router_retries_total", "Attempts given up for another replica",
                  {{"reason", reason}})
      .Add();
}

Gauge& RouterMetrics::ReplicaUp(const std::string& replica) {
  return registry.AddGauge("ember_router_replica_up", "1: the replica is sent requests",
                           {{"replica", replica}});
}

}  // namespace ember::router
