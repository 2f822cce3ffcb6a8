// Router's part on requests that break or fail at replicas: what is the request's fault, and what
// the replica's.
#include <algorithm>
#include <cmath>

#include "router/router.h"
#include "router/tokenize/prompt_digest.h"
#include "router/tokenize/request_model.h"

namespace ember::router {
namespace {

// Who waited at least so long, and so many times as long as usual, waited for nothing.
constexpr double kHangingMs = 1000, kTimesUsual = 10;

}  // namespace

using http::OpenAiError;

std::optional<OpenAiError> Router::CheckSuspicion(const http::Request& request, Routing* routing) {
  const TimePoint now = SteadyClock().Now();
  if (request.body.empty() || suspects_.Empty(now)) return {};
  routing->digest = PromptDigestOf(request.path, request.body);
  const int breaks = suspects_.Breaks(*routing->digest, now);
  if (breaks >= SuspectList::kSuspect) routing->may_break = 1;
  const Duration refused = suspects_.RefusedFor(*routing->digest, now);
  if (refused == Duration::zero()) return {};
  routing->retry_after_s = static_cast<int>(std::ceil(ToMilliseconds(refused) / 1000));
  return OpenAiError::ForHttpStatus(
      502,
      "this request broke " + std::to_string(breaks) + " replicas and is left alone for a while",
      "breaks_replicas");
}

void Router::AvoidWhereItFailed(Routing* routing) {
  if (!routing->digest) return;
  const auto failed_at = suspects_.FailedAt(*routing->digest, SteadyClock().Now());
  if (!failed_at) return;
  for (const auto& endpoint : parts_.replicas->endpoints()) {
    if (endpoint->members.front() != *failed_at) continue;
    MemberSet avoided;
    for (const ReplicaNumber n : endpoint->members) avoided.set(n);
    routing->avoided = avoided;
    routing->tried |= avoided;
    return;
  }
}

void Router::Judge(const http::Request& request, Routing* routing, const AttemptResult& result) {
  bool counts = true;
  if (LeftHanging(request, *routing, result) &&
      CountFailure(SuspectList::Failure::kNoReply, request, routing, result)) {
    parts_.replicas->ApplyLeft(routing->chosen, result.relay.started_at, SteadyClock().Now());
  }
  if (result.retry_reason == "reset") {
    counts = CountFailure(SuspectList::Failure::kBroke, request, routing, result);
  } else if (result.verdict == Health::Reply::kServerError) {
    // With 503 a replica speaks of itself.
    counts = result.relay.status == 503 ||
             CountFailure(SuspectList::Failure::kServerError, request, routing, result);
  } else if (result.cut || result.error == ErrorEvent::kServer) {
    // What it says of the replica is its verdict.
    (void)CountFailure(SuspectList::Failure::kServerError, request, routing, result);
  } else if (routing->digest && result.relay.end == http::RelayEnd::kDone &&
             result.relay.status / 100 == 2 && result.error == ErrorEvent::kNone) {
    // What an engine refuses to run is not served by it.
    suspects_.OnServed(*routing->digest);
  }
  if (result.relay.status == 404 && routing->options.has_prompt) {
    parts_.replicas->DoubtModel(routing->chosen, *routing->model);
  }
  if (result.retry_reason == "status_429" || result.retry_reason == "refused") {
    routing->refused.push_back(
        {.by = parts_.replicas->at(routing->chosen).endpoint, .status = result.relay.status});
  }
  if (!result.verdict) return;
  const TimePoint now = SteadyClock().Now();
  if (!counts) return parts_.replicas->ApplyExcusedReply(routing->chosen, now);
  parts_.replicas->ApplyReply(routing->chosen, *result.verdict, result.verdict_reason, now);
}

bool Router::LeftHanging(const http::Request& request, const Routing& routing,
                         const AttemptResult& result) const {
  const http::RelayOutcome& relay = result.relay;
  if (relay.end != http::RelayEnd::kClientGone || relay.reply_started) return false;
  if (!routing.options.has_prompt) return false;
  const ReplicaSet& replicas = *parts_.replicas;
  if (replicas.at(routing.chosen).endpoint->health.alive_at() >= relay.started_at) return false;
  const double waited_ms = ToMilliseconds(relay.ended_at - relay.started_at);
  if (waited_ms < kHangingMs) return false;
  const bool stream = AsksForStream(request.body);
  const double usual_ms = replicas.UsualWaitMs(routing.chosen, stream);
  return usual_ms > 0 &&
         waited_ms >= kTimesUsual * std::max(usual_ms, routing.record.predicted_ttft_ms);
}

bool Router::CountFailure(SuspectList::Failure failure, const http::Request& request,
                          Routing* routing, const AttemptResult& result) {
  if (failure == SuspectList::Failure::kBroke) ++routing->breaks;
  if (request.body.empty()) return true;
  if (!routing->digest) routing->digest = PromptDigestOf(request.path, request.body);
  const TimePoint now = SteadyClock().Now();
  if (failure == SuspectList::Failure::kServerError) {
    parts_.replicas->Doubt(routing->chosen, SuspectList::kLastWords, now);
  }
  return suspects_.OnFailure(failure, *routing->digest, routing->asked, result.relay.started_at,
                             now);
}

void Router::OnFoundDead(const Endpoint& endpoint) {
  suspects_.OnDeath(endpoint.members.front(), SteadyClock().Now());
}

}  // namespace ember::router
