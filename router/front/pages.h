// Pages: what the router tells of itself over HTTP.
//
//   GET  /metrics        Prometheus text
//   GET  /admin/status   the fleet, the index and the router, JSON
//   GET  /admin/explain  the newest requests with the cost of every candidate, JSON;
//   ?id=REQUEST_ID,
//                        ?n=COUNT
//   POST /admin/explain  a request's body: where it would go, and why, without sending it; ?path=
//   ?verify=1            /v1/completions unless it is a chat; what replicas say of it themselves
//   GET  /admin/live     what the page shows: status, and in brief the requests since ?after=NUMBER
//   GET  /ui             the page
//
// Concurrency: the router's loop. What it refers to must outlive it.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <functional>
#include <optional>
#include <string>

#include "client/http/openai_error.h"
#include "client/http/request.h"
#include "client/http/response_writer.h"
#include "router/front/status_report.h"
#include "router/telemetry/telemetry.h"

namespace ember::router {

struct PagesParts {
  std::function<StatusReport()> status;
  // The decision about a request that is not sent, as JSON. kInvalid: it can't be routed.
  std::function<boost::asio::awaitable<Result<std::string>>(http::Request&)> explain_request;
  // Why a request is refused: it lacks the admin API's token.
  std::function<std::optional<http::OpenAiError>(const http::Request&)> check_token;
  const ExplainLog* explain = nullptr;
  const Telemetry* telemetry = nullptr;
  const MetricsRegistry* registry = nullptr;
};

class Pages {
 public:
  explicit Pages(PagesParts parts) : parts_(std::move(parts)) {}

  static bool Knows(std::string_view path);
  // All of them but /metrics: they have the ids, paths and errors of others' requests, and
  // addresses.
  static bool TellsOfRequests(std::string_view path);
  // The page that tells, of any prompt, how much of it each replica holds.
  static constexpr std::string_view kExplain = "/admin/explain";
  // kToken: what tells of requests is told to whoever bears the token. The page itself, which has
  // no data, is for everybody; it asks for the token.
  enum class For : uint8_t { kEverybody, kToken };
  // The path must be a known one. kExplain is never told without the token, where there is one.
  boost::asio::awaitable<void> Answer(http::Request& request, http::ResponseWriter& writer,
                                      For whom = For::kEverybody);

 private:
  // Or why there is none.
  boost::asio::awaitable<Status> SendJson(Result<std::string> json, http::ResponseWriter& writer);
  Result<std::string> ExplainedJson(const http::Request& request) const;
  Result<std::string> LiveJson(const http::Request& request) const;

  const PagesParts parts_;
};

}  // namespace ember::router
