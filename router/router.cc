#include "router/router.h"

#include <algorithm>
#include <optional>

#include "router/admission/peer_network.h"
#include "router/telemetry/tenant_digest.h"

namespace ember::router {
namespace {

namespace asio = boost::asio;
using http::OpenAiError;
using http::RelayEnd;

const CandidateCost* CostOfChosen(const RoutingDecision& decision) {
  return decision.candidates.empty() ? nullptr : &decision.candidates.at(decision.candidate);
}

constexpr const char* kShutdown = "shutdown";

std::string OutcomeOf(const AttemptResult& result) {
  if (result.relay.stopped) return kShutdown;
  switch (result.relay.end) {
    case RelayEnd::kDone:
      return "done";
    case RelayEnd::kClientGone:
      return "client_gone";
    case RelayEnd::kFailedMidway:
      return "failed_midway: " + result.relay.error.ToString();
    default:
      return "failed: " + result.relay.error.ToString();
  }
}

// As far as anybody knows: what was streamed was computed, and who left may have waited for it.
bool ComputedNothing(const http::RelayOutcome& relay) {
  if (relay.end == RelayEnd::kClientGone) return false;
  if (relay.status >= 400) return true;
  return relay.end != RelayEnd::kDone && relay.body_bytes == 0;
}

// When no replica answered at all.
OpenAiError ErrorOf(const AttemptResult& result) {
  if (result.relay.stopped) return OpenAiError::OfShutdown();
  if (result.retry_reason == "hung") {
    return OpenAiError::ForHttpStatus(504, "the replica hangs", "deadline");
  }
  OpenAiError error = OpenAiError::FromStatus(result.relay.told);
  if (result.relay.error.code() == StatusCode::kCorrupt) {
    return OpenAiError::ForHttpStatus(502, error.message, error.code);
  }
  if (result.retry_reason == "status_429" || result.retry_reason == "refused") {
    return OpenAiError::ForHttpStatus(result.relay.status, "the replica refused the request");
  }
  const bool later = result.retry_reason == "connect" || result.retry_reason == "busy" ||
                     result.retry_reason == "status_503";
  return later ? OpenAiError::ForHttpStatus(503, error.message) : error;
}

void CountTokens(const AttemptResult& result, ReplicaTotals* totals) {
  if (result.route == RouteName(Route::kLocal)) ++totals->routed_local;
  if (result.route == RouteName(Route::kRemote)) ++totals->routed_remote;
  if (result.route == RouteName(Route::kRecompute)) ++totals->routed_recompute;
  if (!result.usage || !result.usage->counted) return;
  totals->cached_tokens += result.usage->cached_tokens;
  totals->computed_tokens += result.usage->computed_tokens;
}

}  // namespace

Status Router::Admit(const http::Request& request, Routing* routing) const {
  Result<RoutingOptions> options =
      RoutingOptions::Of(request, DefaultPolicy(request, routing), options_.allow_policy_override);
  if (!options.ok()) return options.status();
  routing->options = *std::move(options);
  routing->record.policy = routing->options.policy->name();
  const std::string& pin = routing->options.pin;
  if (!pin.empty() && parts_.replicas->Find(pin) == nullptr) {
    return InvalidError("x-ember-pin: there is no replica \"" + pin.substr(0, 100) + "\"");
  }
  if (!routing->options.has_prompt) return OkStatus();
  EMBER_RETURN_IF_ERROR(CheckIsObject(request.body));
  return routing->fan_out ? *routing->fan_out : options_.fan_out.Check(request.body);
}

asio::awaitable<void> Router::Handle(http::Request& request, http::ResponseWriter& writer) {
  Routing routing;
  parts_.telemetry->Begin(request, &routing.record);
  parts_.telemetry->BeginTrace(request, &routing.record);
  if (std::string named = TrustedTenant(request); !named.empty()) {
    routing.record.tenant = std::move(named);
  }
  co_await ReadLargeBody(request, &routing);
  if (const Status admitted = Admit(request, &routing); !admitted.ok()) {
    co_return co_await Refuse(writer, &routing, OpenAiError::FromStatus(admitted));
  }
  std::optional<OpenAiError> error = CheckSuspicion(request, &routing);
  if (error) co_return co_await Refuse(writer, &routing, *std::move(error));
  co_await Tokenize(request, &routing);
  if ((error = FindModel(request, &routing))) {
    co_return co_await Refuse(writer, &routing, *std::move(error));
  }
  if (parts_.replicas->models().Lists(*routing.model)) {
    parts_.metrics->model_requests.At(*routing.model).Add();
  }
  routing.home = homes_.Find(request);
  AvoidWhereItFailed(&routing);
  std::string retry_reason;
  do {
    if (auto refusal = co_await FindRoom(request, writer, &routing)) {
      if (!error || refusal->code == kShutdown) error = std::move(refusal);
      break;
    }
    if (!retry_reason.empty()) parts_.metrics->retries.At(retry_reason).Add();
    const RoutingDecision& decision = Decide(Candidates(routing), &routing);
    const AttemptResult result = co_await Forward(request, writer, &routing, decision);
    if (result.relay.reply_started || result.relay.end == RelayEnd::kClientGone) {
      co_return Finish(&routing, result);
    }
    error = ErrorOf(result);
    routing.retry_after_s = result.retry_after_s;
    if (result.retry_reason != "hung") routing.failure = result.relay.error.message();
    if (result.retry_reason.empty() || routing.breaks >= routing.may_break) break;
    retry_reason = result.retry_reason;
  } while (routing.record.attempts.size() <= static_cast<size_t>(options_.max_retries));
  co_await Refuse(writer, &routing, *std::move(error));
}

asio::awaitable<std::optional<OpenAiError>> Router::FindRoom(const http::Request& request,
                                                             http::ResponseWriter& writer,
                                                             Routing* routing) {
  // Who has been to a replica already is not sent to the end of the queue again.
  bool queued = !routing->record.attempts.empty();
  Admission& admission = *parts_.admission;
  if (routing->avoided.any() && !AnyRoom(*routing)) {
    routing->tried &= ~routing->avoided;
    routing->avoided.reset();
  }
  co_await AwaitNewcomers(*routing, writer.gone());
  bool waited = false;
  while (AnyUsable(*routing) || (waited && AnyMayCome(*routing))) {
    const bool first = queued || admission.idle() || admission.idle(Takers(*routing));
    if (first && AnyRoom(*routing)) co_return std::nullopt;
    const TimePoint since = SteadyClock().Now();
    const Status turn = co_await admission.Wait(
        {.whose = WhoseTurn(request),
         .bytes = request.body.size(),
         .places = Takers(*routing),
         .may_go =
             [this, routing] {
               return AnyRoom(*routing) || !(AnyUsable(*routing) || AnyMayCome(*routing));
             }},
        writer.gone());
    routing->record.queued += SteadyClock().Now() - since;
    queued = waited = true;
    if (turn.code() == StatusCode::kBusy) {
      co_return OpenAiError::ForHttpStatus(429, std::string(turn.message()), "busy");
    }
    if (turn.code() == StatusCode::kDeadline) {
      co_return OpenAiError::ForHttpStatus(503, std::string(turn.message()), "busy");
    }
    if (writer.stopping()) co_return OpenAiError::OfShutdown();
    if (!turn.ok()) co_return OpenAiError::FromStatus(turn);
  }
  co_return NoneUsable(*routing);
}

std::string Router::TrustedTenant(const http::Request& request) const {
  if (!options_.trust_tenant_header) return "";
  return std::string(request.headers.Get("x-ember-tenant").substr(0, 64));
}

FairQueue::Whose Router::WhoseTurn(const http::Request& request) {
  if (const std::string named = TrustedTenant(request); !named.empty()) {
    return {.share = "tenant " + named, .tenant = ""};
  }
  const std::string tenant = TenantDigest(request.headers);
  if (credentials_.Knows(CredentialOf(request.headers))) {
    return {.share = "key " + tenant, .tenant = ""};
  }
  return {.share = "from " + NetworkOf(request.peer), .tenant = tenant};
}

bool Router::MayRetry(const Routing& routing) const {
  return routing.record.attempts.size() <= static_cast<size_t>(options_.max_retries) &&
         AnyRoom(routing);
}

asio::awaitable<void> Router::Tokenize(const http::Request& request, Routing* routing) {
  if (!routing->options.has_prompt || !routing->options.policy->needs_tokens()) co_return;
  routing->record.tokenize_from = SteadyClock().Now();
  auto prompt = co_await parts_.tokenizer->Tokenize(request.path, request.body);
  routing->record.tokenized_at = SteadyClock().Now();
  if (!prompt.ok()) co_return;  // the tokenizer counted why; the policy goes by load
  routing->prompt = *std::move(prompt);
  routing->record.prompt_tokens = routing->prompt->token_count;
}

const RoutingDecision& Router::Decide(std::vector<Candidate> candidates, Routing* routing) {
  AttemptRecord attempt;
  attempt.decide_from = SteadyClock().Now();
  PolicyInput input;
  if (routing->prompt != nullptr) {
    parts_.matcher->Match(
        *routing->prompt,
        {.replicas = routing->options.use_cache, .stores = routing->options.use_store}, &candidates,
        &input);
  }
  attempt.matched_at = SteadyClock().Now();
  input.candidates = candidates;
  input.conversation_id = routing->options.conversation_id;
  input.draw = parts_.random->Next();
  input.turn = TurnOf(*routing)++;
  attempt.decision = routing->options.policy->Decide(input);
  attempt.decided_at = SteadyClock().Now();
  if (input.tokens_known && !attempt.decision.candidates.empty()) {
    for (const Candidate& c : candidates) attempt.matches.push_back(c.match);
  }
  routing->chosen = candidates.at(attempt.decision.candidate).number;
  routing->record.store_tokens = input.store_tokens;
  routing->record.attempts.push_back(std::move(attempt));
  return routing->record.attempts.back().decision;
}

asio::awaitable<AttemptResult> Router::Forward(const http::Request& request,
                                               http::ResponseWriter& writer, Routing* routing,
                                               const RoutingDecision& decision) {
  const ReplicaNumber replica = routing->chosen;
  ReplicaSet::Member& member = parts_.replicas->at(replica);
  const CandidateCost* cost = CostOfChosen(decision);
  RequestRecord& record = routing->record;
  record.predicted_tokens =
      cost == nullptr ? 0 : uint64_t{cost->local_tokens} + cost->remote_tokens;
  record.predicted_ttft_ms = cost == nullptr ? 0 : cost->ttft_ms;
  Attempt attempt{.replica = replica,
                  .flight = nullptr,
                  .options = &routing->options,
                  .record = &record,
                  .cost = cost,
                  .prefill_tokens = record.prompt_tokens -
                                    std::min(record.prompt_tokens, record.predicted_tokens),
                  .several = routing->prompt != nullptr && routing->prompt->several,
                  .fresh = routing->breaks + 1 >= routing->may_break,
                  .kind = routing->kind,
                  .refused = routing->refused};
  if (record.trace.active) record.attempts.back().span = parts_.random->Next();
  // The member, and its number, last as long as the flight.
  ReplicaSet::Flight flight = parts_.replicas->Start(
      replica, attempt.prefill_tokens, cost == nullptr ? 0 : cost->load_ms + cost->prefill_ms,
      SteadyClock().Now());
  flight.Carry(request.body.size());
  attempt.flight = &flight;
  routing->asked = member.endpoint->members.front();
  for (const ReplicaNumber n : member.endpoint->members) routing->tried.set(n);
  attempt.may_retry = MayRetry(*routing);
  if (ResponseHomes::Makes(request)) {
    attempt.on_response_id = [this, home = member.endpoint](std::string_view id) {
      homes_.Remember(id, home);
    };
  }
  PrefixMatcher::Presumed presumed;
  if (routing->prompt != nullptr) {
    presumed = parts_.matcher->Presume(replica, *routing->prompt);
    parts_.metrics->index_blocks.Set(static_cast<double>(parts_.index->blocks()));
  }
  if (cost != nullptr && decision.predicted_route == Route::kRemote) {
    parts_.prefetches->Send(member.endpoint->members.front(), request, *routing->prompt,
                            cost->local_tokens + cost->remote_tokens);
  }
  AttemptResult result = co_await parts_.forwarder->Forward(request, writer, attempt);
  // Engines guard no more than these paths with their keys.
  if (request.path.starts_with("/v1/")) {
    credentials_.OnAnswer(CredentialOf(request.headers), result.relay.status);
  }
  Settle(*routing, presumed, cost, result);
  Judge(request, routing, result);  // while the flight holds the member
  AttemptRecord& tried = record.attempts.back();
  tried.sent_at = result.relay.started_at;
  tried.first_byte_at = result.relay.first_byte_at;
  tried.ended_at = result.relay.ended_at;
  tried.status = result.relay.status;
  tried.failure = result.retry_reason;
  if (result.relay.reply_started || result.relay.end == RelayEnd::kClientGone) {
    CountTokens(result, &member.totals);
  }
  co_return result;
}

void Router::Settle(const Routing& routing, const PrefixMatcher::Presumed& presumed,
                    const CandidateCost* cost, const AttemptResult& result) {
  if (routing.prompt == nullptr) return;
  std::optional<uint64_t> cached;
  if (result.relay.status == 200 && result.usage && result.usage->counted) {
    cached = result.usage->cached_tokens;
  }
  parts_.matcher->Settle(presumed, cached);
  if (ComputedNothing(result.relay)) {
    parts_.matcher->TakeBack(routing.chosen, *routing.prompt, presumed);
  }
  if (cost == nullptr || cost->remote_tokens == 0 || !result.cached_tokens) return;
  if (result.relay.status != 200) return;
  const uint64_t expected = uint64_t{cost->local_tokens} + cost->remote_tokens;
  const uint32_t block = parts_.replicas->at(routing.chosen).view.tokens_per_block;
  if (block == 0 || *result.cached_tokens + block > expected) return;
  parts_.matcher->ForgetStored(routing.chosen, *routing.prompt, *result.cached_tokens);
}

asio::awaitable<void> Router::Refuse(http::ResponseWriter& writer, Routing* routing,
                                     OpenAiError error) {
  http::Headers headers;
  Telemetry::NameReply(routing->record, &headers);
  if (!routing->record.attempts.empty()) {
    headers.Add("x-ember-replica", std::string(routing->record.replica()));
  }
  if (routing->retry_after_s > 0) {
    headers.Add("Retry-After", std::to_string(routing->retry_after_s));
  } else if (error.status == 429 || error.status == 503) {
    headers.Add("Retry-After", std::to_string(parts_.admission->RetryAfterSeconds()));
  }
  const std::string& why = routing->failure.empty() ? error.message : routing->failure;
  routing->record.outcome = error.code == kShutdown ? kShutdown : "refused: " + why;
  routing->record.status = error.status;
  const Status sent = co_await writer.SendError(std::move(error), std::move(headers));
  if (!sent.ok() && !writer.stopping()) parts_.metrics->client_gone.Add();
  if (!routing->record.attempts.empty()) parts_.admission->OnServed();
  parts_.telemetry->Finish(std::move(routing->record));
}

void Router::Finish(Routing* routing, const AttemptResult& result) {
  const http::RelayOutcome& relay = result.relay;
  RequestRecord& record = routing->record;
  if (relay.end == RelayEnd::kClientGone && !relay.stopped) parts_.metrics->client_gone.Add();
  if (relay.end == RelayEnd::kFailedMidway && !relay.stopped) parts_.metrics->failed_midway.Add();
  record.outcome = OutcomeOf(result);
  record.status = relay.reply_started ? relay.status : 0;
  record.route = result.route;
  record.stream = relay.event_stream;
  record.reply_bytes = relay.body_bytes;
  record.counted = result.usage && result.usage->counted;
  if (result.usage) {
    record.engine_prompt_tokens = result.usage->cached_tokens + result.usage->computed_tokens;
  }
  if (record.counted) {
    record.cached_tokens = result.usage->cached_tokens;
    record.computed_tokens = result.usage->computed_tokens;
  }
  parts_.admission->OnServed();
  parts_.telemetry->Finish(std::move(record));
}

}  // namespace ember::router
