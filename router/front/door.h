// Door: what the router answers at which path.
//
//   /v1/models       (and one of them below it) what the fleet serves, where its replicas tell
//   ServedPaths      routed to a replica; 429 with Retry-After over the limit, 405 for a method
//                    that makes no sense there
//   /health          (and /healthz) 200 while a replica is usable, else 503; 503 before the end
//   its pages        see Pages; those that tell of requests, where they are not for everybody, for
//                    the token, or 403 where there is none
//   /admin/replicas  the fleet may be changed; only where that was asked for (AdminApi)
//   anything else    404 in the shape of an OpenAI error (of an Anthropic one below /v1/messages)
//
// Concurrency: a handler of HttpServer on the router's loop. What it refers to must outlive the
// server.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <functional>

#include "client/http/request.h"
#include "client/http/response_writer.h"
#include "router/front/admin_api.h"
#include "router/front/cors.h"
#include "router/front/pages.h"
#include "router/front/served_paths.h"

namespace ember::router {

// Which of the router's own pages are beside /v1; /metrics and /health are always.
struct DoorPages {
  bool explain = true;     // /admin/explain
  bool live = true;        // /ui, /admin/status, /admin/live
  bool token = false;      // whoever bears the admin API's token gets them all
  bool elsewhere = false;  // all are at the address of --admin, too
};

class Door {
 public:
  using Route = std::function<boost::asio::awaitable<void>(http::Request&, http::ResponseWriter&)>;

  // `retry_after`: seconds, for who is refused.
  Door(Route route, std::function<int()> retry_after, const ReplicaSet& replicas, PagesParts pages,
       Telemetry& telemetry, RouterMetrics& metrics, size_t max_in_flight, ServedPaths served,
       Cors cors, AdminApi* admin, DoorPages told)
      : route_(std::move(route)),
        retry_after_(std::move(retry_after)),
        replicas_(replicas),
        pages_(std::move(pages)),
        telemetry_(telemetry),
        metrics_(metrics),
        max_in_flight_(max_in_flight),
        served_(std::move(served)),
        cors_(std::move(cors)),
        admin_(admin),
        told_(told) {}

  boost::asio::awaitable<void> Answer(http::Request& request, http::ResponseWriter& writer);
  // Tells who was refused before it came here: a request that is malformed, too large or too slow.
  boost::asio::awaitable<void> AnswerRefused(http::Request& request, http::ResponseWriter& writer,
                                             http::OpenAiError error, http::Headers extra);
  // From now on /health says so, and nothing else changes: who still comes is served.
  void SetStopping() { stopping_ = true; }
  bool stopping() const { return stopping_; }
  // All but /v1, whoever asks.
  boost::asio::awaitable<void> AnswerPage(http::Request& request, http::ResponseWriter& writer);

 private:
  // Of a path that is served: a page's question, the fleet's models, or what replicas answer.
  boost::asio::awaitable<void> AnswerServed(http::Request& request, http::ResponseWriter& writer);
  boost::asio::awaitable<void> AnswerRouted(http::Request& request, http::ResponseWriter& writer);
  boost::asio::awaitable<void> AnswerHealth(http::ResponseWriter& writer);
  // "/v1/models/a%2Fb" becomes "/v1/models/a/b" where there is such a model.
  void UnescapeModel(http::Request* request) const;
  // Whether the request asks for models, and it is known which there are.
  bool AsksForModels(const http::Request& request) const;
  boost::asio::awaitable<void> AnswerModels(const http::Request& request,
                                            http::ResponseWriter& writer);
  // Answers with an error of our own, and notes the request.
  boost::asio::awaitable<void> Refuse(const http::Request& request, http::ResponseWriter& writer,
                                      http::OpenAiError error, http::Headers headers = {});

  Route route_;
  std::function<int()> retry_after_;
  const ReplicaSet& replicas_;
  Pages pages_;
  Telemetry& telemetry_;
  RouterMetrics& metrics_;
  const size_t max_in_flight_;
  const ServedPaths served_;
  const Cors cors_;
  AdminApi* const admin_;  // null: not on this door
  const DoorPages told_;
  size_t in_flight_ = 0;
  bool stopping_ = false;
};

}  // namespace ember::router
