// Forwarder: one attempt to have one replica answer a request: sends it on as received, relays the
// reply as it comes, adds the router's headers, and says what happened.
//
// Concurrency: a coroutine on the router's loop. What it refers to must outlive its coroutines.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <optional>
#include <string>

#include "client/http/relay.h"
#include "router/fleet/replica_set.h"
#include "router/front/json_reader.h"
#include "router/front/routing_options.h"

namespace ember::router {

struct ForwarderOptions {
  Duration connect_timeout = seconds(2);
  Duration first_byte_timeout = seconds(600);
  Duration idle_timeout = seconds(600);  // between two pieces of a reply
};

struct Attempt {
  ReplicaNumber replica = 0;
  const RoutingOptions* options = nullptr;
  std::string_view policy;
  double predicted_ttft_ms = 0;  // 0: none
  uint64_t prefill_tokens = 0;   // that this request is expected to compute there
  bool may_retry = false;        // a 503 may be answered by another replica
};

struct AttemptResult {
  http::RelayOutcome relay;
  std::string route;                      // as the agent said; empty: it did not
  std::optional<uint64_t> cached_tokens;  // as the agent said in its reply's head
  std::optional<ReplyUsage> usage;        // as the engine counted
  // Set when nothing was sent to the client and another replica may do better: "connect", "reset",
  // "busy" or "status_503".
  std::string retry_reason;
};

class Forwarder {
 public:
  Forwarder(http::UpstreamPool& pool, ReplicaSet& replicas, ForwarderOptions options)
      : pool_(pool), replicas_(replicas), options_(options) {}

  boost::asio::awaitable<AttemptResult> Forward(const http::Request& request,
                                                http::ResponseWriter& writer, Attempt attempt);

 private:
  http::RelayOptions RelayOptionsFor(const http::Request& request, const Attempt& attempt) const;
  // A connection that could not be made takes the replica out at once.
  void JudgeHealth(ReplicaNumber replica, AttemptResult* result);

  http::UpstreamPool& pool_;
  ReplicaSet& replicas_;
  const ForwarderOptions options_;
};

}  // namespace ember::router
