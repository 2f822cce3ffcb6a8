#include "router/telemetry/otlp_exporter.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <charconv>
#include <future>
#include <utility>

namespace ember::router {
namespace {

namespace asio = boost::asio;

// As OTLP's standard has it.
bool WantsItAgain(int status) {
  return status == 429 || status == 502 || status == 503 || status == 504;
}

// Zero when it says nothing, or a date.
Duration RetryAfterOf(const http::Headers& headers) {
  const std::string_view text = headers.Get("Retry-After");
  uint32_t s = 0;
  std::from_chars(text.data(), text.data() + text.size(), s);
  return seconds(s);
}

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

OtlpExporter::~OtlpExporter() {
  const std::lock_guard lock(mutex_);
  closing_ = true;
  changed_.notify_all();
}

void OtlpExporter::Send(const std::vector<FinishedRequest>& batch) {
  const OtlpBatch out = OtlpJson(batch, resource_);
  const Status taken = PostAgain(out.json);
  (taken.ok() ? sent_ : dropped_).Add(out.spans);
  if (!taken.ok() && !std::exchange(failing_, true)) {
    spdlog::warn("spans: {}: {}; those of {} requests are dropped", options_.collector.ToString(),
                 taken.ToString(), batch.size());
  }
  if (taken.ok()) failing_ = false;
}

Status OtlpExporter::PostAgain(const std::string& json) {
  const auto closing = [this] { return closing_; };
  Duration delay = options_.retry_delay;
  for (int tries = 1;; ++tries) {
    {
      // The end of the process does not wait for one deadline after another.
      const std::lock_guard lock(mutex_);
      if (closing_ && (failing_ || tries > 1)) return CancelledError("closing");
    }
    std::optional<Duration> retry_after;
    Status taken = Post(json, &retry_after);
    if (!retry_after || tries >= options_.max_tries) return taken;
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::min(std::max(delay, *retry_after), options_.max_retry_delay),
                      closing);
    delay *= 2;
  }
}

Status OtlpExporter::Post(const std::string& json, std::optional<Duration>* retry_after) {
  const auto done = std::make_shared<std::promise<Status>>();
  std::future<Status> taken = done->get_future();
  const auto post = [this, done, retry_after, &json]() -> asio::awaitable<void> {
    http::ExchangeOptions exchange;
    exchange.deadline = options_.deadline;
    const auto reply = co_await pool_.Call(
        options_.collector, {.method = "POST", .target = options_.target, .body = json}, exchange);
    if (!reply.ok()) {
      done->set_value(reply.status());
    } else if (reply->status / 100 != 2) {
      if (WantsItAgain(reply->status)) *retry_after = RetryAfterOf(reply->headers);
      done->set_value(UnavailableError("the collector said " + std::to_string(reply->status)));
    } else {
      done->set_value(OkStatus());
    }
  };
  asio::co_spawn(loop_.executor(), post, asio::detached);
  return taken.get();
}

}  // namespace ember::router
