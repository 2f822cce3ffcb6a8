#include "router/front/door.h"

#include <charconv>

namespace ember::router {
namespace {

namespace asio = boost::asio;
using http::OpenAiError;

constexpr size_t kExplainedByDefault = 20;

// Counts one request as long as it lives.
class InFlight {
 public:
  InFlight(size_t* count, Gauge* gauge) : count_(count), gauge_(gauge) { Set(*count_ + 1); }
  ~InFlight() { Set(*count_ - 1); }
  InFlight(const InFlight&) = delete;
  InFlight& operator=(const InFlight&) = delete;

 private:
  void Set(size_t n) {
    *count_ = n;
    gauge_->Set(static_cast<double>(n));
  }
  size_t* count_;
  Gauge* gauge_;
};

size_t CountParam(const http::Request& request) {
  const std::string_view text = request.QueryParam("n").value_or("");
  size_t n = kExplainedByDefault;
  std::from_chars(text.data(), text.data() + text.size(), n);
  return n;
}

}  // namespace

asio::awaitable<void> Door::Answer(http::Request& request, http::ResponseWriter& writer) {
  if (request.path.starts_with("/v1/")) return AnswerRouted(request, writer);
  if (admin_ != nullptr && AdminApi::Knows(request.path)) return admin_->Answer(request, writer);
  return AnswerPage(request, writer);
}

asio::awaitable<void> Door::AnswerPage(http::Request& request, http::ResponseWriter& writer) {
  const std::string& path = request.path;
  const bool health = path == "/health" || path == "/healthz";
  const bool ours =
      health || path == "/metrics" || path == "/admin/status" || path == "/admin/explain";
  Status sent;
  if (!ours) {
    sent = co_await writer.SendError(
        OpenAiError::ForHttpStatus(404, "no such path: " + path.substr(0, 200), "unknown_url"));
  } else if (request.method != "GET" && request.method != "HEAD") {
    sent = co_await writer.SendError(OpenAiError::ForHttpStatus(405, path + " takes GET only"),
                                     {{"Allow", "GET, HEAD"}});
  } else if (health) {
    co_await AnswerHealth(writer);
  } else if (path == "/metrics") {
    sent =
        co_await writer.Send({.headers = {{"Content-Type", "text/plain; version=0.0.4"}}},
                             metrics_.registry.RenderPrometheusText() + status_().PrometheusText());
  } else if (path == "/admin/status") {
    sent = co_await writer.SendJson(200, status_().Json());
  } else {
    sent = co_await writer.SendJson(
        200, explain_.Json(request.QueryParam("id").value_or(""), CountParam(request)));
  }
  (void)sent.ok();  // a client that left has no further claims
}

asio::awaitable<void> Door::AnswerRouted(http::Request& request, http::ResponseWriter& writer) {
  if (in_flight_ >= max_in_flight_) {
    metrics_.refused_busy.Add();
    const Status sent = co_await writer.SendError(
        OpenAiError::ForHttpStatus(429, "too many requests under way here; try again", "busy"),
        {{"Retry-After", "1"}});
    (void)sent.ok();
    co_return;
  }
  const InFlight counted(&in_flight_, &metrics_.in_flight);
  co_await route_(request, writer);
}

asio::awaitable<void> Door::AnswerHealth(http::ResponseWriter& writer) {
  size_t usable = 0;
  const StatusReport report = status_();
  for (const ReplicaReport& r : report.replicas) usable += r.healthy ? 1 : 0;
  const std::string body = "{\"status\":\"" + std::string(usable > 0 ? "ok" : "no_replica") +
                           "\",\"usable_replicas\":" + std::to_string(usable) +
                           ",\"replicas\":" + std::to_string(report.replicas.size()) + "}";
  const Status sent = co_await writer.SendJson(usable > 0 ? 200 : 503, body);
  (void)sent.ok();
}

}  // namespace ember::router
