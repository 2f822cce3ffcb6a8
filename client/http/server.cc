#include "client/http/server.h"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>
#include <unistd.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <future>

#include "client/http/await.h"
#include "client/http/server_connection.h"
#include "client/http/server_shared.h"
#include "client/http/watchdog.h"
#include "proto/base/check.h"

namespace ember::http {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

namespace {

constexpr size_t kDefaultConnections = 10'000;
constexpr int kMaxRefusals = 256;              // told "busy" at a time; others wait to be accepted
constexpr Duration kFarewell = seconds(1);     // to tell clients that their requests are given up
constexpr Duration kCancelGrace = seconds(5);  // for handlers to end once they are cancelled

// Each client may need a second descriptor for its upstream; some are for refusals and for all
// else.
size_t ConnectionLimit(std::optional<size_t> asked) {
  const size_t wanted = asked.value_or(kDefaultConnections);
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return wanted;
  const size_t others = std::min<size_t>(limit.rlim_cur / 8, 2 * kMaxRefusals);
  const size_t fit = std::max<size_t>((limit.rlim_cur - others) / 2, 8);
  if (fit < wanted && asked)
    spdlog::warn("http: {} descriptors allow {} connections, not {}", limit.rlim_cur, fit, wanted);
  return std::min(fit, wanted);
}

}  // namespace

ServerMetrics::ServerMetrics(MetricsRegistry* given, const std::string& prefix)
    : own(given == nullptr ? std::make_unique<MetricsRegistry>() : nullptr),
      registry(given == nullptr ? *own : *given),
      connections(registry.AddGauge(prefix + "_connections", "Open client connections")),
      requests(registry.AddCounter(prefix + "_requests_total", "Requests received whole")),
      refused_connections(
          registry.AddCounter(prefix + "_refused_connections_total", "Connections over the limit")),
      client_gone(registry.AddCounter(prefix + "_client_gone_total",
                                      "Clients that left before their reply's end")),
      handler_failures(registry.AddCounter(prefix + "_handler_failures_total",
                                           "Handlers that gave no whole reply")) {
  static constexpr const char* kClasses[] = {"other", "1xx", "2xx", "3xx", "4xx", "5xx"};
  for (size_t i = 0; i < by_class.size(); ++i) {
    by_class[i] = &registry.AddCounter(prefix + "_responses_total", "Replies begun",
                                       {{"class", kClasses[i]}});
  }
}

bool ServerShared::Add(const std::shared_ptr<ServerConnection>& connection) {
  std::lock_guard lock(mutex);
  if (stopping || connections.size() >= *options.max_connections) return false;
  connections.emplace(connection.get(), connection);
  metrics.connections.Set(static_cast<double>(connections.size()));
  return true;
}

void ServerShared::Remove(ServerConnection* connection) {
  std::lock_guard lock(mutex);
  connections.erase(connection);
  metrics.connections.Set(static_cast<double>(connections.size()));
  if (connections.empty()) became_empty.notify_all();
}

std::vector<std::shared_ptr<ServerConnection>> ServerShared::Snapshot() {
  std::lock_guard lock(mutex);
  std::vector<std::shared_ptr<ServerConnection>> out;
  out.reserve(connections.size());
  for (const auto& [key, connection] : connections) out.push_back(connection);
  return out;
}

std::shared_ptr<TlsContext> ServerShared::tls() {
  std::lock_guard lock(mutex);
  return tls_;
}

void ServerShared::SetTls(std::shared_ptr<TlsContext> tls) {
  std::lock_guard lock(mutex);
  tls_ = std::move(tls);
}

struct HttpServer::Impl : std::enable_shared_from_this<Impl> {
  Impl(HttpLoop& l, HttpServerOptions options, Handler handler, RefusalHandler refusal)
      : loop(l),
        shared(std::make_shared<ServerShared>(std::move(options), std::move(handler),
                                              std::move(refusal))),
        acceptor(loop.NewStrand()),
        spare_descriptor(open("/dev/null", O_RDONLY | O_CLOEXEC)) {}
  ~Impl() {
    if (spare_descriptor >= 0) close(spare_descriptor);
  }

  Status Bind();
  asio::awaitable<void> Accept();
  void Take(tcp::socket socket);
  void ShedOne();

  HttpLoop& loop;
  std::shared_ptr<ServerShared> shared;
  tcp::acceptor acceptor;
  int spare_descriptor;
  uint16_t port = 0;
};

Status HttpServer::Impl::Bind() {
  const HttpServerOptions& o = shared->options;
  error_code ec;
  const asio::ip::address address = asio::ip::make_address(o.host, ec);
  if (ec) return InvalidError("listen on \"" + o.host + "\": not a numeric address");
  const tcp::endpoint endpoint(address, o.port);
  acceptor.open(endpoint.protocol(), ec);
  if (!ec) acceptor.set_option(tcp::acceptor::reuse_address(true), ec);
  if (!ec) acceptor.bind(endpoint, ec);
  if (!ec) acceptor.listen(asio::socket_base::max_listen_connections, ec);
  if (!ec) acceptor.non_blocking(true, ec);
  if (ec)
    return UnavailableError("listen on " + o.host + ":" + std::to_string(o.port) + ": " +
                            ec.message());
  port = acceptor.local_endpoint(ec).port();
  return OkStatus();
}

asio::awaitable<void> HttpServer::Impl::Accept() {
  const auto self = shared_from_this();
  while (acceptor.is_open()) {
    if (shared->refusals >= kMaxRefusals) {
      (void)(co_await SleepFor(milliseconds(1), nullptr)).ok();
      continue;
    }
    auto [ec, socket] = co_await acceptor.async_accept(loop.NewStrand(), kAwait);
    if (!ec) {
      Take(std::move(socket));
    } else if (ec == asio::error::no_descriptors || ec.value() == ENFILE) {
      ShedOne();
      Status slept = co_await SleepFor(milliseconds(10), nullptr);
    }
  }
}

void HttpServer::Impl::Take(tcp::socket socket) {
  const auto connection = std::make_shared<ServerConnection>(shared, std::move(socket));
  if (shared->Add(connection)) return connection->Start();
  shared->metrics.refused_connections.Add();
  shared->refusals.fetch_add(1);
  connection->StartRefusal();
}

// No descriptor is left: the one kept for this moment lets us answer the client at the head of the
// queue instead of leaving it there.
void HttpServer::Impl::ShedOne() {
  if (spare_descriptor >= 0) close(spare_descriptor);
  {
    error_code ec;
    tcp::socket socket = acceptor.accept(ec);
    if (!ec) {
      static const std::string kBusy = [] {
        const std::string body = OpenAiError::ForHttpStatus(503, "too many connections").Body();
        return "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\n"
               "Retry-After: 1\r\nContent-Length: " +
               std::to_string(body.size()) + "\r\nConnection: close\r\n\r\n" + body;
      }();
      shared->metrics.refused_connections.Add();
      socket.non_blocking(true, ec);
      if (shared->tls() == nullptr) socket.write_some(asio::buffer(kBusy), ec);
      // What is unread when it closes makes a reset, which can overtake the reply.
      std::array<char, 16 << 10> request;
      socket.shutdown(tcp::socket::shutdown_send, ec);
      socket.read_some(asio::buffer(request), ec);
    }
  }
  spare_descriptor = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

HttpServer::HttpServer(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

Result<std::unique_ptr<HttpServer>> HttpServer::Listen(HttpLoop& loop, HttpServerOptions options,
                                                       Handler handler, RefusalHandler refusal) {
  options.max_connections = ConnectionLimit(options.max_connections);
  auto impl =
      std::make_shared<Impl>(loop, std::move(options), std::move(handler), std::move(refusal));
  EMBER_RETURN_IF_ERROR(impl->Bind());
  asio::co_spawn(
      impl->acceptor.get_executor(), [impl] { return impl->Accept(); }, asio::detached);
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(impl)));
}

HttpServer::~HttpServer() { Stop(Duration::zero()); }

uint16_t HttpServer::port() const { return impl_->port; }

size_t HttpServer::buffered_bytes() const { return impl_->shared->budget.used(); }

size_t HttpServer::connection_count() const {
  std::lock_guard lock(impl_->shared->mutex);
  return impl_->shared->connections.size();
}

void HttpServer::SetTls(std::shared_ptr<TlsContext> tls) {
  EMBER_CHECK(impl_->shared->options.tls != nullptr && tls != nullptr, "TLS all along");
  impl_->shared->SetTls(std::move(tls));
}

void HttpServer::WindDown() { impl_->shared->winding_down = true; }

size_t HttpServer::Stop(Duration grace) {
  ServerShared& shared = *impl_->shared;
  {
    std::lock_guard lock(shared.mutex);
    if (std::exchange(shared.stopping, true)) return 0;
  }
  const auto closed = std::make_shared<std::promise<void>>();
  asio::post(impl_->acceptor.get_executor(), [impl = impl_, closed] {
    error_code ignored;
    impl->acceptor.close(ignored);
    closed->set_value();
  });
  closed->get_future().wait_for(kCancelGrace);
  const auto await_empty = [&shared](Duration limit) {
    std::unique_lock lock(shared.mutex);
    return shared.became_empty.wait_until(lock, After(limit),
                                          [&] { return shared.connections.empty(); });
  };
  for (const auto& c : shared.Snapshot()) c->BeginDrain();
  if (await_empty(grace)) return 0;
  for (const auto& c : shared.Snapshot()) c->Cut();
  if (!await_empty(kFarewell)) {
    for (const auto& c : shared.Snapshot()) c->ForceClose();
  }
  if (!await_empty(kCancelGrace))
    spdlog::error("http: {} handlers ignore their cancellation", connection_count());
  return shared.requests_cut;
}

}  // namespace ember::http
