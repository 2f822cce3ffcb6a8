#include "router/telemetry/otlp_exporter.h"

#include <spdlog/spdlog.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <future>
#include <utility>

namespace ember::router {
namespace {

namespace asio = boost::asio;

}  // namespace

Result<OtlpOptions> OtlpOptions::Parse(std::string_view endpoint) {
  OtlpOptions out;
  const size_t scheme = endpoint.find("://");
  const size_t path = endpoint.find('/', scheme == endpoint.npos ? 0 : scheme + 3);
  Result<http::Origin> origin = http::Origin::Parse(endpoint.substr(0, path));
  if (!origin.ok()) return origin.status();
  out.collector = *std::move(origin);
  if (path != endpoint.npos && path + 1 < endpoint.size()) out.target = endpoint.substr(path);
  return out;
}

OtlpExporter::OtlpExporter(OtlpOptions options, OtlpResource resource, http::HttpLoop& loop,
                           http::UpstreamPool& pool, MetricsRegistry& registry)
    : options_(std::move(options)),
      resource_(std::move(resource)),
      loop_(loop),
      pool_(pool),
      sent_(registry.AddCounter("ember_router_otlp_spans_sent_total",
                                "Spans that the collector took")),
      dropped_(registry.AddCounter("ember_router_otlp_spans_dropped_total",
                                   "Spans that the collector did not take")),
      queue_full_(registry.AddCounter("ember_router_otlp_requests_dropped_total",
                                      "Sampled requests that the exporter's queue did not take")),
      worker_(options_.queue, queue_full_, [this](const auto& batch) { Send(batch); }) {}

void OtlpExporter::Send(const std::vector<FinishedRequest>& batch) {
  const OtlpBatch out = OtlpJson(batch, resource_);
  // The end of the process does not wait for one deadline after another.
  const bool give_up = closing_.load() && failing_;
  const Status taken = give_up ? CancelledError("closing") : Post(out.json);
  (taken.ok() ? sent_ : dropped_).Add(out.spans);
  if (!taken.ok() && !std::exchange(failing_, true)) {
    spdlog::warn("spans: {}: {}; those of {} requests are dropped", options_.collector.ToString(),
                 taken.ToString(), batch.size());
  }
  if (taken.ok()) failing_ = false;
}

Status OtlpExporter::Post(const std::string& json) {
  const auto done = std::make_shared<std::promise<Status>>();
  std::future<Status> taken = done->get_future();
  const auto post = [this, done, &json]() -> asio::awaitable<void> {
    http::ExchangeOptions exchange;
    exchange.deadline = options_.deadline;
    const auto reply = co_await pool_.Call(
        options_.collector, {.method = "POST", .target = options_.target, .body = json}, exchange);
    if (!reply.ok()) {
      done->set_value(reply.status());
    } else if (reply->status / 100 != 2) {
      done->set_value(UnavailableError("the collector said " + std::to_string(reply->status)));
    } else {
      done->set_value(OkStatus());
    }
  };
  asio::co_spawn(loop_.executor(), post, asio::detached);
  return taken.get();
}

}  // namespace ember::router
