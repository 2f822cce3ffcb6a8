// Door: what the router answers at which path.
//
//   /v1/*            routed to a replica (any method); 429 with Retry-After over the limit
//   /health          (and /healthz) 200 while a replica is usable, else 503
//   /metrics         Prometheus text
//   /admin/status    the fleet, JSON
//   /admin/explain   the newest decisions, JSON; ?id=REQUEST_ID, ?n=COUNT
//   /admin/replicas  the fleet may be changed; only where that was asked for (AdminApi)
//   anything else    404 in the shape of an OpenAI error
//
// Concurrency: a handler of HttpServer on the router's loop. What it refers to must outlive the
// server.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <functional>

#include "client/http/request.h"
#include "client/http/response_writer.h"
#include "router/front/admin_api.h"
#include "router/front/status_report.h"
#include "router/telemetry/telemetry.h"

namespace ember::router {

class Door {
 public:
  using Route = std::function<boost::asio::awaitable<void>(http::Request&, http::ResponseWriter&)>;

  Door(Route route, std::function<StatusReport()> status, const ExplainLog& explain,
       RouterMetrics& metrics, size_t max_in_flight, AdminApi* admin = nullptr)
      : route_(std::move(route)),
        status_(std::move(status)),
        explain_(explain),
        metrics_(metrics),
        max_in_flight_(max_in_flight),
        admin_(admin) {}

  boost::asio::awaitable<void> Answer(http::Request& request, http::ResponseWriter& writer);
  // All but /v1.
  boost::asio::awaitable<void> AnswerPage(http::Request& request, http::ResponseWriter& writer);

 private:
  boost::asio::awaitable<void> AnswerRouted(http::Request& request, http::ResponseWriter& writer);
  boost::asio::awaitable<void> AnswerHealth(http::ResponseWriter& writer);

  Route route_;
  std::function<StatusReport()> status_;
  const ExplainLog& explain_;
  RouterMetrics& metrics_;
  const size_t max_in_flight_;
  AdminApi* const admin_;  // null: not on this door
  size_t in_flight_ = 0;
};

}  // namespace ember::router
