// Exchange: one request to an upstream and its reply, read as it comes. Made by UpstreamPool::Send
// once the reply's head is there.
//
// Concurrency: the strand of the coroutine that made it.
// Life: destroy it at any time; a connection whose reply was read to its end goes back to the pool,
// any other is closed at once, which is how an upstream learns that its work is not wanted.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "client/http/cancellation.h"
#include "client/http/request.h"
#include "proto/base/status.h"
#include "proto/base/time.h"

namespace ember::http {

// What to send. Host, Content-Length and Connection are made by the Exchange.
struct UpstreamRequest {
  std::string method = "GET";
  std::string target = "/";
  Headers headers;        // sent as they are
  std::string host;       // Host header; empty: the origin's host:port
  std::string_view body;  // must stay valid until Send returns
};

struct ExchangeOptions {
  Duration connect_timeout = seconds(2);       // name resolution included
  Duration first_byte_timeout = seconds(600);  // from the request's last byte to the reply's head
  Duration idle_timeout = Duration::max();     // between two pieces of the body
  Duration deadline = Duration::max();         // for the whole exchange, from the start of Send
  // A kept connection that breaks so soon, before any byte of a reply, is tried once more, on a
  // fresh one: it may have been dead before, which tells nothing of the request or the upstream.
  Duration stale_within = seconds(1);
  bool fresh = false;  // takes no kept connection
  // Has connections of its own allowance: for questions how the origin does, which must neither
  // want for a request's connection nor take one.
  bool aside = false;
  Cancellation* cancellation = nullptr;  // closes the connection at once; must outlive the Exchange
};

class Exchange {
 public:
  virtual ~Exchange() = default;

  virtual const ResponseHead& head() const = 0;
  // From Content-Length; nothing for a chunked or close-delimited body.
  virtual std::optional<uint64_t> content_length() const = 0;
  // The next piece of the body as it arrived (at most 16 KiB), transfer coding removed, content
  // coding untouched; valid until the next call. Empty: the body is over and was complete.
  // kUnavailable: the upstream cut the reply. kDeadline, kCancelled as named.
  virtual boost::asio::awaitable<Result<std::string_view>> ReadBody() = 0;
  // Lets what comes until then lie; more than a piece of it, and the connection's end, may wake the
  // loop, but not this.
  virtual boost::asio::awaitable<void> Rest(TimePoint until) = 0;
  // True when nothing of the body is left to be waited for.
  virtual bool body_over() const = 0;
  // True when the body ends with the connection: one that was cut looks like a whole one.
  virtual bool ends_with_connection() const = 0;
  // True when this used a connection that had served before.
  virtual bool reused() const = 0;
  // When the last byte of the request was given to the kernel, and when the head was complete.
  virtual TimePoint sent_at() const = 0;
  virtual TimePoint head_at() const = 0;
};

}  // namespace ember::http
