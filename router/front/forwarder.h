// Forwarder: one attempt to have one replica answer a request: sends it on as received, relays the
// reply as it comes, adds the router's headers, and says what happened.
//
// Concurrency: a coroutine on the router's loop. What it refers to must outlive its coroutines.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "client/http/relay.h"
#include "router/fleet/replica_set.h"
#include "router/front/json_reader.h"
#include "router/front/routing_options.h"
#include "router/telemetry/router_metrics.h"

namespace ember::router {

class ReplyObserver;

struct ForwarderOptions {
  Duration connect_timeout = seconds(2);
  Duration first_byte_timeout = seconds(600);
  Duration idle_timeout = seconds(600);  // between two pieces of a reply
  bool server_timing = false;            // replies get a Server-Timing header
};

// An attempt that a replica refused though another may take it.
struct Refused {
  std::shared_ptr<Endpoint> by;
  int status = 0;
};

struct Attempt {
  ReplicaNumber replica = 0;
  ReplicaSet::Flight* flight = nullptr;  // of this attempt; never null
  const RoutingOptions* options = nullptr;
  const RequestRecord* record = nullptr;  // so far; its last attempt is this one
  const CandidateCost* cost = nullptr;    // of the replica; null: the policy predicts nothing
  uint64_t prefill_tokens = 0;            // that this request is expected to compute there
  bool may_retry = false;                 // another replica may answer instead
  bool several = false;                   // see TokenizedPrompt
  bool fresh = false;                     // on a connection of its own, sent once
  Refusals::Kind kind{};                  // of the request
  std::span<const Refused> refused{};     // before this attempt
  // Told the id of the response that the reply is, before the client sees it; null: it is none.
  std::function<void(std::string_view id)> on_response_id;
};

struct AttemptResult {
  http::RelayOutcome relay;
  std::string_view route;                 // see RouteOfReply; empty: not known
  std::optional<uint64_t> cached_tokens;  // as the agent said in its reply's head
  std::optional<ReplyUsage> usage;        // as the engine counted, as far as it did
  // Set when nothing was sent to the client and another replica may do better: "connect", "reset",
  // "busy", "hung", "status_503", "status_429" or "refused".
  std::string retry_reason;
  // What it says about the replica's health, if anything; a failed connection was told already.
  std::optional<Health::Reply> verdict;
  std::string verdict_reason;            // for people; "" when it is good
  int retry_after_s = 0;                 // as a 429 that was not passed on said; 0: it did not
  bool cut = false;                      // the replica broke off within its reply
  ErrorEvent error = ErrorEvent::kNone;  // that the replica ended an event stream with
};

class Forwarder {
 public:
  Forwarder(http::UpstreamPool& pool, ReplicaSet& replicas, RouterMetrics& metrics,
            ForwarderOptions options)
      : pool_(pool), replicas_(replicas), metrics_(metrics), options_(options) {}

  boost::asio::awaitable<AttemptResult> Forward(const http::Request& request,
                                                http::ResponseWriter& writer, Attempt attempt);

 private:
  http::RelayOptions RelayOptionsFor(const http::Request& request, const Attempt& attempt) const;
  // What the engine counted in the reply so far. What it does not tell of the one prompt that the
  // prediction is about is taken to be as predicted.
  std::optional<ReplyUsage> UsageOf(const Attempt& attempt, ReplyObserver& observer);
  // `result`'s route, unless the agent said it.
  void ChooseRoute(const Attempt& attempt, bool said_by_agent, AttemptResult* result) const;
  // The router's own headers of a reply, `result` known so far.
  void Label(const Attempt& attempt, const AttemptResult& result, const http::RelayOutcome& so_far,
             http::ResponseHead* head) const;
  // What the attempt says about the replica's health, into `result`.
  void JudgeHealth(ReplicaNumber replica, AttemptResult* result);

  http::UpstreamPool& pool_;
  ReplicaSet& replicas_;
  RouterMetrics& metrics_;
  const ForwarderOptions options_;
};

}  // namespace ember::router
