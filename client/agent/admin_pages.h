// AdminPages: what the agent tells of itself over HTTP: /health, /metrics, /ember/requests and
// /ember/held. Everything else belongs to the engine.
// Concurrency: the HTTP loop's thread. Life: everything given must outlive it.
#pragma once

#include <boost/asio/awaitable.hpp>

#include "client/agent/agent_feed.h"
#include "client/agent/engine_monitor.h"
#include "client/agent/request_log.h"
#include "client/agent/slot_table.h"
#include "client/http/request.h"
#include "client/http/response_writer.h"
#include "proto/base/metrics.h"

namespace ember::agent {

class AdminPages {
 public:
  AdminPages(MetricsRegistry& registry, const RequestLog& log, const AgentFeed& feed,
             const EngineMonitor& monitor, const SlotTable& slots);

  bool Has(const http::Request& request) const;
  boost::asio::awaitable<void> Handle(http::Request& request, http::ResponseWriter& writer);

 private:
  std::string Health() const;
  std::string Held() const;
  std::string Metrics();

  MetricsRegistry& registry_;
  const RequestLog& log_;
  const AgentFeed& feed_;
  const EngineMonitor& monitor_;
  const SlotTable& slots_;
  Gauge& healthy_;
  Gauge& slots_total_;
  Gauge& running_;
  Gauge& waiting_;
};

}  // namespace ember::agent
