// Door: a server on a loop, with a pool, as the tests need it.
#pragma once

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "client/http/relay.h"
#include "client/http/server.h"
#include "client/http/upstream_pool.h"
#include "tests/unit/http/fake_upstream.h"

namespace ember::http {

class Door {
 public:
  explicit Door(Handler handler, HttpServerOptions options = {}, int threads = 2);
  // Relays everything to `origin`.
  static std::unique_ptr<Door> To(Origin origin, HttpServerOptions options = {},
                                  std::function<void(RelayOptions&)> adjust = nullptr);
  ~Door();

  uint16_t port() const { return server->port(); }
  TestSocket Client() const { return TestSocket::ConnectTo(port()); }
  // The outcome of the n-th relay, waiting for it.
  RelayOutcome Outcome(size_t n = 0);
  void Record(RelayOutcome outcome);

  HttpLoop loop;
  UpstreamPool pool;
  std::unique_ptr<HttpServer> server;

 private:
  std::mutex mutex_;
  std::vector<RelayOutcome> outcomes_;
};

// "POST <target>" with this body.
std::string Post(std::string_view body, std::string_view target = "/v1/chat/completions");

template <typename T>
boost::asio::awaitable<void> Deliver(boost::asio::awaitable<T> work, std::promise<T> promise) {
  promise.set_value(co_await std::move(work));
}

// Starts a coroutine on a strand.
template <typename T>
std::future<T> Launch(boost::asio::any_io_executor strand, boost::asio::awaitable<T> work) {
  std::promise<T> promise;
  std::future<T> result = promise.get_future();
  boost::asio::co_spawn(strand, Deliver(std::move(work), std::move(promise)),
                        boost::asio::detached);
  return result;
}

// Runs a coroutine on the loop and waits for its result.
template <typename T>
T RunOn(HttpLoop& loop, boost::asio::awaitable<T> work) {
  return Launch(loop.NewStrand(), std::move(work)).get();
}

}  // namespace ember::http
