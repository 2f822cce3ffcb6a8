// HttpServer: an HTTP/1.1 listener. It reads whole requests, calls the handler, and watches the
// client while the handler works, so that a reply nobody waits for is cancelled.
//
// Promises: limits hold before memory is spent (431, 413, 503 at once); a chunked body arrives as
// the client meant it, once; a client that closes or resets fires ResponseWriter::gone() in
// milliseconds, while one that only shuts down its sending side still gets its whole reply
// (README).
//
// Concurrency: methods are safe from any thread but the loop's own; each connection and its handler
// run on one strand. The handler may run many times at once, for different connections.
// Life: must be destroyed before the HttpLoop; the destructor stops without grace.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "client/http/loop.h"
#include "client/http/request.h"
#include "client/http/response_writer.h"
#include "proto/base/metrics.h"
#include "proto/base/status.h"
#include "proto/base/time.h"

namespace ember::http {

class TlsContext;

struct HttpServerOptions {
  std::string host = "127.0.0.1";  // numeric
  uint16_t port = 0;               // 0: any free one, see port()
  // Values are limits; what goes over one is answered and closed.
  size_t max_header_bytes = 32u << 10;   // request line and header fields: 431
  size_t max_body_bytes = 64u << 20;     // 413, before a declared body is read
  size_t max_buffered_bytes = 1u << 30;  // request bodies of all connections together: 503
  // 503. Nothing: 10 000. Lowered to half the process's descriptors if those are fewer.
  std::optional<size_t> max_connections;
  Duration header_timeout =
      seconds(15);  // from the first byte of a request to its last header byte
  Duration body_timeout =
      seconds(60);  // without a byte of the body; for all of it, + 1 s per 256 B
  Duration idle_timeout = seconds(75);  // keep-alive, without a request
  // A client that its reply waits for is gone after so long without taking a byte, or when it has
  // been so long behind this rate (bytes/s; 0: any).
  Duration write_timeout = seconds(60);
  size_t min_read_rate = 0;
  std::shared_ptr<TlsContext> tls;     // null: plain HTTP
  MetricsRegistry* metrics = nullptr;  // must outlive the server; null: counted privately
  std::string metrics_prefix = "ember_http";
};

// Answers the request through the writer. `request` and `writer` live until it returns. When it
// throws or returns without an answer, the client gets a 500 (or the connection is cut, if the
// reply had begun).
using Handler =
    std::function<boost::asio::awaitable<void>(Request& request, ResponseWriter& writer)>;

// Tells the client of a request that was refused before the handler saw it; `request` is what was
// understood of it. Concurrency and life as of the handler.
using RefusalHandler = std::function<boost::asio::awaitable<void>(
    Request& request, ResponseWriter& writer, OpenAiError error, Headers extra)>;

class HttpServer {
 public:
  // Binds and starts to accept. Without `refusal` errors are sent as they are. kInvalid: `host` is
  // not a numeric address. kUnavailable: the address is in use or not ours, with its name in the
  // message.
  static Result<std::unique_ptr<HttpServer>> Listen(HttpLoop& loop, HttpServerOptions options,
                                                    Handler handler,
                                                    RefusalHandler refusal = nullptr);
  ~HttpServer();

  uint16_t port() const;
  size_t connection_count() const;
  // The TLS of connections that come from here on; the server must have had some. Any thread.
  void SetTls(std::shared_ptr<TlsContext> tls);
  // From here on each reply ends its connection, so that clients go elsewhere; who comes is served.
  void WindDown();
  // Of request bodies that are held now; at most max_buffered_bytes.
  size_t buffered_bytes() const;
  // Stops accepting, closes idle connections, lets requests in flight finish for up to `grace`,
  // then cancels them: their clients are told 503, as far as they have seen nothing. How many were
  // cancelled. Blocks until no connection is left; not from a loop thread. Idempotent.
  size_t Stop(Duration grace);

 private:
  struct Impl;
  explicit HttpServer(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;
};

}  // namespace ember::http
