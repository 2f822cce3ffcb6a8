// RouterMetrics: the router's own counters, made once; see router/README.md for what each means.
// What is counted for each request is found without a lock or a search by text.
// Updates come from the router's loop thread, scrapes from any.
#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "proto/base/metrics.h"
#include "router/telemetry/labelled_counters.h"
#include "router/telemetry/request_record.h"

namespace ember::router {

class RouterMetrics {
 public:
  explicit RouterMetrics(MetricsRegistry& registry);

  // Counts a request that is over.
  void Count(const RequestRecord& record);

  MetricsRegistry& registry;
  Gauge& in_flight;
  Gauge& index_blocks;
  Counter& refused_busy;
  Counter& client_gone;
  Counter& failed_midway;
  Gauge& certificate_expiry;  // s since 1970; 0: no TLS
  Gauge& reload_failed;       // 1: the newest reload's files were faulty
  Histogram& decide;
  Histogram& inter_token;  // between two pieces of an event stream
  LabelledCounters retries;
  LabelledCounters model_requests;  // by model, of those that replicas list

 private:
  static constexpr size_t kRoutes = 4;     // the three, and none
  static constexpr size_t kStatuses = 21;  // see StatusNumber
  struct OfPolicy {
    std::string_view name;
    std::array<std::array<Counter*, kStatuses>, kRoutes> requests{};
  };
  Counter& Requests(std::string_view policy, size_t route, int status);
  void CountTtft(const RequestRecord& record, size_t route);

  std::vector<OfPolicy> policies_;
  LabelledCounters decisions_;
  std::array<Histogram*, kRoutes> ttft_;
  std::array<Histogram*, kRoutes> duration_;
  Histogram& prediction_error_;
  Counter& predicted_hits_;
  Counter& real_hits_;
  Counter& prompt_tokens_;
};

}  // namespace ember::router
