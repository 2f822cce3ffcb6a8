// UpstreamPool: bounded keep-alive connections to any number of upstreams (replicas, engines).
//
// Concurrency: Send and Call from any coroutine on the loop (they use its strand); the rest from
// any thread. Life: must be destroyed before the HttpLoop; Exchanges may outlive the pool.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <memory>
#include <string>

#include "client/http/exchange.h"
#include "client/http/loop.h"
#include "client/http/origin.h"
#include "proto/base/metrics.h"

namespace ember::http {

class TlsContext;
class UpstreamStore;

struct UpstreamPoolOptions {
  size_t max_connections_per_origin = 4096;  // in use; beyond: kBusy at once
  size_t max_aside_per_origin = 256;         // ExchangeOptions::aside, beside those
  size_t max_idle_per_origin = 256;
  // Less than the keep-alive time of common engines (5 s), so that we close first.
  Duration idle_timeout = seconds(4);
  std::shared_ptr<TlsContext> tls;     // for https; null: the system's certificate authorities
  MetricsRegistry* metrics = nullptr;  // must outlive pool and Exchanges; null: counted privately
};

// A whole small reply.
struct CallReply {
  int status = 0;
  Headers headers;
  std::string body;
};

class UpstreamPool {
 public:
  explicit UpstreamPool(HttpLoop& loop, UpstreamPoolOptions options = {});
  ~UpstreamPool();

  // Connects (or reuses), sends the request and waits for the reply's head, whatever its status.
  // kBusy: the bound is reached. kUnavailable: no connection, or it broke before a head.
  // kDeadline: a timeout. kCancelled. kCorrupt: the reply is not HTTP/1.
  // A kept connection that breaks before any byte of a reply is tried once more on a fresh one,
  // unless the options forbid it.
  boost::asio::awaitable<Result<std::unique_ptr<Exchange>>> Send(Origin origin,
                                                                 UpstreamRequest request,
                                                                 ExchangeOptions options);

  // For small exchanges (health, tokenize, metrics): sends, reads the whole reply of at most
  // `max_reply_bytes` (more: kNoSpace). With a body the content type is JSON unless `request` says
  // otherwise.
  boost::asio::awaitable<Result<CallReply>> Call(Origin origin, UpstreamRequest request,
                                                 ExchangeOptions options,
                                                 size_t max_reply_bytes = 1u << 20);

  // Closes the idle connections to an origin that is no longer used; those in use close when done.
  void Forget(const Origin& origin);
  size_t idle_count() const;
  size_t connection_count() const;

 private:
  std::shared_ptr<UpstreamStore> store_;
};

}  // namespace ember::http
