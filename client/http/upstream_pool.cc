#include "client/http/upstream_pool.h"

#include <boost/asio/this_coro.hpp>

#include "client/http/http_exchange.h"
#include "client/http/upstream_connection.h"

namespace ember::http {

namespace asio = boost::asio;

UpstreamPool::UpstreamPool(HttpLoop& loop, UpstreamPoolOptions options)
    : store_(std::make_shared<UpstreamStore>(loop.executor(), loop.names(), options)) {}

UpstreamPool::~UpstreamPool() { store_->Close(); }

asio::awaitable<Result<std::unique_ptr<Exchange>>> UpstreamPool::Send(Origin origin,
                                                                      UpstreamRequest request,
                                                                      ExchangeOptions options) {
  const std::shared_ptr<UpstreamStore> store = store_;
  if (!store->Reserve(origin, options.aside)) {
    co_return BusyError("too many connections to " + origin.ToString());
  }
  auto exchange = std::make_unique<HttpExchange>(co_await asio::this_coro::executor, store,
                                                 std::move(origin), options);
  if (Status s = co_await exchange->Run(request); !s.ok()) co_return s;
  co_return std::unique_ptr<Exchange>(std::move(exchange));
}

asio::awaitable<Result<CallReply>> UpstreamPool::Call(Origin origin, UpstreamRequest request,
                                                      ExchangeOptions options,
                                                      size_t max_reply_bytes) {
  if (!request.body.empty() && !request.headers.Has("Content-Type")) {
    request.headers.Add("Content-Type", "application/json");
  }
  auto sent = co_await Send(std::move(origin), std::move(request), options);
  if (!sent.ok()) co_return sent.status();
  Exchange& exchange = **sent;
  CallReply reply{.status = exchange.head().status, .headers = exchange.head().headers, .body = {}};
  for (;;) {
    const auto piece = co_await exchange.ReadBody();
    if (!piece.ok()) co_return piece.status();
    if (piece->empty()) co_return reply;
    if (reply.body.size() + piece->size() > max_reply_bytes) {
      co_return NoSpaceError("the reply is over " + std::to_string(max_reply_bytes) + " bytes");
    }
    reply.body.append(*piece);
  }
}

void UpstreamPool::Forget(const Origin& origin) { store_->Forget(origin); }
size_t UpstreamPool::idle_count() const { return store_->idle_count(); }
size_t UpstreamPool::connection_count() const { return store_->connection_count(); }

}  // namespace ember::http
