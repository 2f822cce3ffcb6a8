#include "kvstore/server/admin_http.h"

#include "client/http/server.h"
#include "proto/base/process_metrics.h"

namespace ember::kv {
namespace {

constexpr size_t kMaxConnections = 64;

http::ResponseHead TextHead(int status) {
  return {status, {{"content-type", "text/plain; version=0.0.4; charset=utf-8"}}};
}

}  // namespace

struct AdminHttp::Impl {
  MetricsRegistry* metrics;
  std::function<bool()> alive;
  http::HttpLoop loop{1};
  std::unique_ptr<http::HttpServer> server;

  boost::asio::awaitable<void> Handle(http::Request& request, http::ResponseWriter& writer) {
    if (request.method != "GET" && request.method != "HEAD") {
      (void)co_await writer.Send(TextHead(405), "only GET\n");
    } else if (request.path == "/metrics") {
      (void)co_await writer.Send(TextHead(200),
                                 metrics->RenderPrometheusText() + ProcessMetricsText());
    } else if (request.path == "/healthz") {
      const bool ok = alive();
      (void)co_await writer.Send(TextHead(ok ? 200 : 503), ok ? "ok\n" : "not answering\n");
    } else {
      (void)co_await writer.Send(TextHead(404), "try /metrics or /healthz\n");
    }
  }
};

Result<std::unique_ptr<AdminHttp>> AdminHttp::Start(const io::Endpoint& endpoint,
                                                    MetricsRegistry* metrics,
                                                    std::function<bool()> alive) {
  auto impl = std::make_unique<Impl>(metrics, std::move(alive));
  http::HttpServerOptions options;
  options.host = endpoint.host;
  options.port = endpoint.port;
  options.max_body_bytes = 4 << 10;
  options.max_connections = kMaxConnections;
  Result<std::unique_ptr<http::HttpServer>> server = http::HttpServer::Listen(
      impl->loop, options, [impl = impl.get()](http::Request& request, http::ResponseWriter& w) {
        return impl->Handle(request, w);
      });
  if (!server.ok()) return server.status();
  impl->server = *std::move(server);
  return std::unique_ptr<AdminHttp>(new AdminHttp(std::move(impl)));
}

AdminHttp::AdminHttp(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

AdminHttp::~AdminHttp() = default;

uint16_t AdminHttp::port() const { return impl_->server->port(); }

}  // namespace ember::kv
