// RouterMetrics: the router's own counters, made once; see router/README.md for what each means.
// Updates come from the router's loop thread, scrapes from any.
#pragma once

#include <map>
#include <string>
#include <tuple>

#include "proto/base/metrics.h"
#include "router/policy/policy.h"

namespace ember::router {

class RouterMetrics {
 public:
  explicit RouterMetrics(MetricsRegistry& registry);

  // One answered request. `replica` and `route` are "none" when there was none. `status` is what
  // the client saw, 0: nothing.
  void CountRequest(std::string_view policy, const std::string& replica, const std::string& route,
                    int status);
  void CountRetry(const std::string& reason);
  Gauge& ReplicaUp(const std::string& replica);

  MetricsRegistry& registry;
  Gauge& in_flight;
  Gauge& index_blocks;
  Counter& refused_busy;
  Counter& client_gone;
  Counter& failed_midway;
  Histogram& decide;
  Histogram& first_byte;
  Histogram& prediction_error;

 private:
  using RequestKey = std::tuple<std::string, std::string, std::string, int>;
  std::map<RequestKey, Counter*> requests_;
};

}  // namespace ember::router
