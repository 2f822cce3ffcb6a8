// Relay: forwards one request to one upstream and streams the reply back, byte for byte, each piece
// as it comes, never faster than the client takes it. Reports what happened, so that the caller can
// try another upstream as long as nothing was sent to the client.
//
// The reply's head is held until the first byte of its body (or its end) is there: an upstream that
// dies before is a failure the client never sees. An event stream that breaks later is ended with
// an error event and `data: [DONE]`, unless it has said that itself; any other reply is cut.
// Concurrency: a coroutine on the request's strand; hooks are called there.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "client/http/exchange.h"
#include "client/http/request.h"
#include "client/http/response_writer.h"
#include "client/http/upstream_pool.h"
#include "proto/base/status.h"
#include "proto/base/time.h"

namespace ember::http {

enum class RelayEnd {
  kDone,          // the client has the whole reply
  kRejected,      // accept() said no; nothing was sent to the client
  kFailedBefore,  // the upstream failed; nothing was sent to the client: try another one
  kFailedMidway,  // the upstream failed after the reply had begun; the client was told
  kClientGone,    // the upstream connection was closed at once
};

struct RelayOutcome {
  RelayEnd end = RelayEnd::kFailedBefore;
  Status error;                // why, when not kDone; names addresses: for logs
  Status told;                 // the same as clients may know it
  int status = 0;              // the upstream's; 0: no head arrived
  bool reply_started = false;  // some byte went to the client
  bool stopped = false;        // it was given up because our server stops; the client was there
  bool event_stream = false;
  bool reused_connection = false;
  uint64_t body_bytes = 0;                                          // taken from the upstream
  TimePoint started_at, sent_at, head_at, first_byte_at, ended_at;  // epoch: did not happen
};

struct RelayOptions {
  ExchangeOptions exchange;  // its cancellation is set by Relay
  // Fires when the upstream is to be given up as long as the client has seen nothing of its reply;
  // may be null, must outlive the Relay. The end is then kFailedBefore, with kCancelled.
  Cancellation* abandon = nullptr;
  std::string upstream_name;             // what clients are told instead of its address
  std::string target;                    // empty: the request's own
  std::optional<std::string_view> body;  // instead of the request's; must stay valid
  std::string host;                      // Host header; empty: the upstream's host:port
  Headers set_request_headers;           // replace fields of the same name, or are added
  std::vector<std::string> drop_request_headers;
  // Called with the upstream's head, hop-by-hop fields removed; may change it. False: reject.
  std::function<bool(ResponseHead& head)> accept;
  // Called right before the head goes to the client, with first_byte_at known: last header changes.
  std::function<void(ResponseHead& head, const RelayOutcome& so_far)> before_head;
  // Sees every piece of the body, unchanged, before it goes to the client. Must be quick.
  std::function<void(std::string_view piece)> on_body;
  // Whether the events so far are all of their stream, beside [DONE], which is known here. May be
  // null.
  std::function<bool()> said_all;
  // Runs when the upstream's body is complete and sent, before the client sees the reply's end. The
  // upstream connection is back in the pool by then.
  std::function<boost::asio::awaitable<void>(const RelayOutcome& so_far)> before_end;
};

boost::asio::awaitable<RelayOutcome> Relay(UpstreamPool& pool, Origin origin,
                                           const Request& request, ResponseWriter& writer,
                                           RelayOptions options);

}  // namespace ember::http
