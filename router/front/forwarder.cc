#include "router/front/forwarder.h"

#include <fmt/format.h>

#include <spdlog/spdlog.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "router/front/reply_observer.h"
#include "router/front/reply_route.h"
#include "router/front/response_id.h"
#include "router/front/server_timing.h"
#include "router/telemetry/telemetry.h"
#include "router/tokenize/prompt_api.h"

namespace ember::router {
namespace {

namespace asio = boost::asio;

constexpr uint64_t kMaxRetryAfter = 3600;  // s

TimePoint Now() { return std::chrono::steady_clock::now(); }

// The peer's address without its port, after those that earlier proxies put there. What stands
// there is passed on unread: only the last entry is ours.
std::string ForwardedFor(const http::Request& request) {
  std::string out;
  for (const auto& field : request.headers) {
    if (!http::EqualNoCase(field.name, "X-Forwarded-For") || field.value.empty()) continue;
    out.append(field.value).append(", ");
  }
  std::string_view host = std::string_view(request.peer).substr(0, request.peer.rfind(':'));
  // "[::1]", "[fe80::1%eth0]": no brackets and no scope, as whoever parses it expects.
  if (host.starts_with('[')) host = host.substr(1, host.find_first_of("%]") - 1);
  return out.append(host);
}

std::optional<uint64_t> ReadCount(std::string_view text) {
  uint64_t n = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return {};
  return n;
}

// Another replica may take what this one refuses so: it is full or going, or has another key, or
// knows other models, or finds whatever it gets wrong, as not all do. But for the first two reasons
// one other is asked: what two say is the client's doing.
bool MayBeTakenElsewhere(int status, const Attempt& attempt, const Endpoint& endpoint,
                         const ReplicaSet& replicas) {
  if (!attempt.may_retry) return false;
  if (status == 503 || status == 429) return true;
  if (!attempt.options->has_prompt ||
      !std::ranges::all_of(attempt.refused, [](const Refused& r) { return r.status == 429; })) {
    return false;
  }
  if (!Refusals::IsWrong(status)) return status == 401 || status == 403 || status == 404;
  return endpoint.refusals.finds_all_wrong() &&
         std::ranges::any_of(replicas.endpoints(), [&](const auto& other) {
           return other->usable() && !other->refusals.finds_all_wrong() &&
                  replicas.models().Overlap(endpoint.members.front(), other->members.front());
         });
}

// What the head says of whom the replica refuses.
void NoteRefusal(int status, const Attempt& attempt, Endpoint& endpoint) {
  if (status < 200 || status >= 300) return;
  endpoint.refusals.OnTaken(attempt.kind);
  for (const Refused& refused : attempt.refused) {
    if (!refused.by->refusals.OnAlone(refused.status, attempt.kind, Now())) continue;
    spdlog::warn("replica {}: it refuses with {} what others take", refused.by->config.id,
                 refused.status);
  }
}

std::string RetryReasonOf(const http::RelayOutcome& relay) {
  if (relay.stopped) return "";
  if (relay.end == http::RelayEnd::kRejected) {
    if (relay.status == 429) return "status_429";
    return relay.status == 503 ? "status_503" : "refused";
  }
  if (relay.end != http::RelayEnd::kFailedBefore) return "";
  switch (relay.error.code()) {
    case StatusCode::kUnavailable:
    case StatusCode::kDeadline:
      // Of a time-out only the connection's can be tried elsewhere: the replica has seen nothing.
      if (relay.error.message().starts_with("connect to ")) return "connect";
      return relay.error.code() == StatusCode::kUnavailable ? "reset" : "";
    case StatusCode::kBusy:
      return "busy";
    case StatusCode::kCancelled:
      return "hung";
    default:
      return "";
  }
}

// What a relay says about its replica's health; nothing when the client left or was wrong (4xx), or
// we ourselves had no connection to spare.
std::optional<Health::Reply> ReplyOf(const http::RelayOutcome& relay) {
  if (relay.end == http::RelayEnd::kClientGone) return {};
  if (relay.end == http::RelayEnd::kFailedBefore || relay.end == http::RelayEnd::kFailedMidway) {
    if (relay.error.code() == StatusCode::kDeadline) return Health::Reply::kTimeout;
    if (relay.error.code() == StatusCode::kUnavailable) return Health::Reply::kReset;
    if (relay.error.code() == StatusCode::kCorrupt) return Health::Reply::kServerError;
    return {};
  }
  if (relay.status >= 500) return Health::Reply::kServerError;
  if (relay.status >= 400) return {};
  return Health::Reply::kGood;
}

// An agent's reply: it names itself as it is named here, where it is not known to be one.
bool IsOfAgent(const ReplicaSet::Member& member, const http::ResponseHead& head) {
  return !member.config.grpc.empty() || member.agent_space ||
         head.headers.Get("x-ember-replica") == member.config.id;
}

// The router's own names in the reply of a replica that is no agent: the word of nobody.
void DropOwnNames(http::Headers* headers) {
  constexpr std::string_view kOwn = "x-ember-";
  std::vector<std::string> own;
  for (const auto& field : *headers) {
    if (http::EqualNoCase(std::string_view(field.name).substr(0, kOwn.size()), kOwn)) {
      own.push_back(field.name);
    }
  }
  for (const std::string& name : own) headers->Remove(name);
}

ReplyTokens TokensOf(const AttemptResult& result, const CandidateCost* cost) {
  ReplyTokens tokens{.prompt = result.usage->cached_tokens + result.usage->computed_tokens,
                     .cached = result.usage->cached_tokens,
                     .output = result.usage->output_tokens};
  if (cost != nullptr) tokens.predicted = cost->local_tokens;
  if (cost != nullptr && result.route == RouteName(Route::kRemote)) {
    tokens.loaded = tokens.cached - std::min<uint64_t>(tokens.cached, cost->local_tokens);
  }
  return tokens;
}

}  // namespace

http::RelayOptions Forwarder::RelayOptionsFor(const http::Request& request,
                                              const Attempt& attempt) const {
  http::RelayOptions relay;
  relay.exchange.connect_timeout = options_.connect_timeout;
  relay.exchange.first_byte_timeout = options_.first_byte_timeout;
  relay.exchange.idle_timeout = options_.idle_timeout;
  relay.exchange.fresh = attempt.fresh;
  relay.target = attempt.options->target;
  relay.set_request_headers = {{"X-Forwarded-For", ForwardedFor(request)},
                               {"X-Forwarded-Proto", request.secure ? "https" : "http"},
                               {"x-ember-request-id", attempt.record->request_id}};
  const ReplicaSet::Member& member = replicas_.at(attempt.replica);
  relay.upstream_name = "replica " + member.config.id;
  relay.host = member.config.host;
  if (member.view.rank) {
    relay.set_request_headers.Add("X-data-parallel-rank", std::to_string(*member.view.rank));
  }
  relay.drop_request_headers = {"x-ember-policy", "x-ember-pin"};
  if (const TraceContext& trace = attempt.record->trace; trace.active) {
    const uint64_t span = attempt.record->attempts.back().span;
    relay.set_request_headers.Add("traceparent",
                                  Traceparent{trace.trace, span, trace.sampled}.ToString());
    if (trace.began) relay.drop_request_headers.push_back("tracestate");
  }
  return relay;
}

asio::awaitable<AttemptResult> Forwarder::Forward(const http::Request& request,
                                                  http::ResponseWriter& writer, Attempt attempt) {
  const ReplicaSet::Member& member = replicas_.at(attempt.replica);
  ReplyObserver observer;
  AttemptResult result;
  http::RelayOptions relay = RelayOptionsFor(request, attempt);
  const std::shared_ptr<http::Cancellation> given_up = member.endpoint->given_up;
  // One that nobody else may answer is better off with a slow reply than with none.
  if (attempt.may_retry) relay.abandon = given_up.get();
  bool event_stream = false;
  bool said_by_agent = false;
  bool computed = false;  // what comes is made by the engine, and not by the door before it
  relay.accept = [&](http::ResponseHead& head) {
    event_stream = head.headers.Get("Content-Type").starts_with("text/event-stream");
    const bool elsewhere = MayBeTakenElsewhere(head.status, attempt, *member.endpoint, replicas_);
    if (Refusals::IsWrong(head.status)) member.endpoint->refusals.OnWrong();
    computed = head.status == 200 && attempt.options->has_prompt;
    if (!elsewhere) return true;
    result.retry_after_s = static_cast<int>(
        std::min<uint64_t>(ReadCount(head.headers.Get("Retry-After")).value_or(0), kMaxRetryAfter));
    return false;
  };
  relay.before_head = [&](http::ResponseHead& head, const http::RelayOutcome& so_far) {
    using Answer = ReplicaSet::Answer;
    NoteRefusal(head.status, attempt, *member.endpoint);
    attempt.flight->PrefillDone(head.status != 200 ? Answer::kNone
                                : event_stream     ? Answer::kStream
                                                   : Answer::kWhole,
                                Now());
    if (computed && so_far.body_bytes > 0) {
      member.endpoint->usual_wait.Observe(event_stream, request.body.size(),
                                          ToMilliseconds(so_far.first_byte_at - so_far.started_at));
    }
    result.relay.status = head.status;
    if (!IsOfAgent(member, head)) DropOwnNames(&head.headers);
    result.cached_tokens = ReadCount(head.headers.Get("x-ember-cached-tokens"));
    result.route = KnownRoute(head.headers.Get("x-ember-route"));
    said_by_agent = !result.route.empty();
    // A whole reply that came in one piece tells already what a stream tells at its end.
    if (!event_stream) result.usage = UsageOf(attempt, observer);
    ChooseRoute(attempt, said_by_agent, &result);
    Label(attempt, result, so_far, &head);
  };
  relay.said_all = [&observer] { return observer.said_all(); };
  TimePoint last_piece;
  ResponseIdFinder response_id;
  relay.on_body = [&](std::string_view piece) {
    observer.Feed(piece, event_stream);
    if (attempt.on_response_id) {
      if (const std::string id = response_id.Feed(piece); !id.empty()) attempt.on_response_id(id);
    }
    const TimePoint now = Now();
    if (computed) member.endpoint->health.OnSignOfLife(now);
    if (!event_stream) return;
    if (last_piece != TimePoint()) {
      metrics_.inter_token.Observe(ToMilliseconds(now - last_piece) / 1000);
    }
    last_piece = now;
  };
  result.relay = co_await http::Relay(pool_, member.config.http, request, writer, std::move(relay));
  result.usage = UsageOf(attempt, observer);
  if (result.usage) {
    ChooseRoute(attempt, said_by_agent, &result);
    // Without a count or a prediction nothing is known of what it computed, and
    // what several took says nothing of one.
    if (!attempt.several && (result.usage->counted || attempt.cost != nullptr)) {
      attempt.flight->Learn(TokensOf(result, attempt.cost), Now());
    }
  }
  JudgeHealth(attempt.replica, &result);
  result.cut = result.relay.end == http::RelayEnd::kFailedMidway &&
               result.relay.error.code() == StatusCode::kUnavailable;
  result.error = observer.error();
  // How soon it refuses says nothing of how long others wait.
  if (result.relay.end == http::RelayEnd::kDone && result.relay.status < 400) {
    // A stream shows when its prefill ended; of a whole reply we see only the end.
    const TimePoint from =
        result.relay.event_stream ? result.relay.first_byte_at : result.relay.started_at;
    replicas_.ObserveService(attempt.replica, ToMilliseconds(result.relay.ended_at - from));
  }
  co_return result;
}

std::optional<ReplyUsage> Forwarder::UsageOf(const Attempt& attempt, ReplyObserver& observer) {
  std::optional<ReplyUsage> usage = observer.Usage();
  if (!usage) return usage;
  const std::optional<PromptApi> api = PromptApiOf(attempt.record->path);
  const auto bit = static_cast<uint8_t>(1u << (api ? static_cast<unsigned>(*api) : 7u));
  uint8_t& counts = replicas_.at(attempt.replica).counts_cached;
  if (usage->counted) counts |= bit;
  usage->counted = (counts & bit) != 0 && !attempt.several;
  if (!usage->counted) {
    usage->computed_tokens += std::exchange(usage->cached_tokens, 0);
    usage->cached_tokens = std::min(attempt.record->predicted_tokens, usage->computed_tokens);
    usage->computed_tokens -= usage->cached_tokens;
  }
  return usage;
}

void Forwarder::ChooseRoute(const Attempt& attempt, bool said_by_agent,
                            AttemptResult* result) const {
  if (said_by_agent) return;
  std::optional<uint64_t> cached = result->cached_tokens;
  if (result->usage && result->usage->counted) cached = result->usage->cached_tokens;
  // An error took no way at all.
  result->route = result->relay.status >= 400 ? "" : RouteOfReply(cached, attempt.cost);
}

void Forwarder::Label(const Attempt& attempt, const AttemptResult& result,
                      const http::RelayOutcome& so_far, http::ResponseHead* head) const {
  http::Headers& headers = head->headers;
  headers.Set("x-ember-replica", replicas_.at(attempt.replica).config.id);
  headers.Set("x-ember-policy", std::string(attempt.record->policy));
  Telemetry::NameReply(*attempt.record, &headers);
  if (result.route.empty()) {
    headers.Remove("x-ember-route");
  } else {
    headers.Set("x-ember-route", std::string(result.route));
  }
  const bool counted = result.usage && result.usage->counted;
  if (!result.cached_tokens && (counted || attempt.cost != nullptr)) {
    const uint64_t cached =
        counted ? result.usage->cached_tokens : attempt.record->predicted_tokens;
    headers.Set("x-ember-cached-tokens", std::to_string(cached));
  }
  if (attempt.cost != nullptr) {
    headers.Set("x-ember-predicted-ttft-ms", fmt::format("{:.1f}", attempt.cost->ttft_ms));
  }
  if (options_.server_timing) {
    headers.Add("Server-Timing",
                ServerTiming(*attempt.record, so_far.started_at, so_far.first_byte_at));
  }
}

void Forwarder::JudgeHealth(ReplicaNumber replica, AttemptResult* result) {
  const http::RelayOutcome& relay = result->relay;
  result->retry_reason = RetryReasonOf(relay);
  if (result->retry_reason == "connect") {
    return replicas_.ApplyConnectFailure(replica, relay.error, Now());
  }
  result->verdict = ReplyOf(relay);
  if (!result->verdict || *result->verdict == Health::Reply::kGood) return;
  result->verdict_reason =
      relay.error.ok() ? "status " + std::to_string(relay.status) : relay.error.ToString();
}

}  // namespace ember::router
