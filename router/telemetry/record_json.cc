#include "router/telemetry/record_json.h"

#include <algorithm>

#include "client/http/json_object.h"

namespace ember::router {
namespace {

using http::JsonObject;

// Milliseconds between two steps; 0 unless both were reached.
double StepMs(TimePoint from, TimePoint to) {
  return from == TimePoint() || to == TimePoint() ? 0 : ToMilliseconds(to - from);
}

std::string CandidateJson(const CandidateCost& c, const PrefixMatch* match) {
  JsonObject out;
  out.Add("replica", c.replica);
  if (c.rank) out.Add("rank", *c.rank);
  if (match != nullptr) {
    out.Add("device_tokens", match->device_tokens)
        .Add("any_tier_tokens", std::max(match->device_tokens, match->any_tier_tokens));
  }
  return out.Add("queue_ms", c.queue_ms)
      .Add("load_ms", c.load_ms)
      .Add("prefill_ms", c.prefill_ms)
      .Add("tail_ms", c.tail_ms)
      .Add("displacement_ms", c.displacement_ms)
      .Add("exploration_ms", c.exploration_ms)
      .Add("crowding_ms", c.crowding_ms)
      .Add("total_ms", c.total_ms)
      .Add("ttft_ms", c.ttft_ms)
      .Add("local_tokens", c.local_tokens)
      .Add("remote_tokens", c.remote_tokens)
      .ToString();
}

std::string AttemptJson(const AttemptRecord& a) {
  const RoutingDecision& decision = a.decision;
  std::vector<std::string> candidates;
  candidates.reserve(decision.candidates.size());
  for (size_t i = 0; i < decision.candidates.size(); ++i) {
    candidates.push_back(
        CandidateJson(decision.candidates[i], i < a.matches.size() ? &a.matches[i] : nullptr));
  }
  JsonObject out;
  out.Add("replica", decision.replica);
  if (decision.rank) out.Add("rank", *decision.rank);
  out.Add("policy", decision.policy)
      .Add("reason", decision.reason)
      .Add("predicted_route", RouteName(decision.predicted_route))
      .AddRaw("candidates", http::JsonArray(candidates))
      .Add("match_us", StepMs(a.decide_from, a.matched_at) * 1000)
      .Add("decide_us", StepMs(a.matched_at, a.decided_at) * 1000)
      .Add("first_byte_ms", StepMs(a.sent_at, a.first_byte_at))
      .Add("upstream_ms", StepMs(a.sent_at, a.ended_at))
      .Add("failure", a.failure);
  return out.ToString();
}

JsonObject BriefFields(const RequestRecord& r) {
  JsonObject out;
  out.Add("sequence", r.sequence)
      .Add("request_id", r.request_id)
      .Add("at_ms", static_cast<uint64_t>(r.received_unix_ns / 1'000'000))
      .Add("method", r.method)
      .Add("path", r.path)
      .Add("model", r.model)
      .Add("policy", r.policy)
      .Add("replica", r.replica())
      .Add("route", r.route)
      .Add("status", static_cast<uint64_t>(r.status))
      .Add("outcome", r.outcome)
      .Add("prompt_tokens", r.prompt_tokens)
      .Add("cached_tokens", r.cached_tokens)
      .Add("computed_tokens", r.computed_tokens)
      .Add("predicted_ttft_ms", r.predicted_ttft_ms)
      .Add("measured_ttft_ms", r.ttft_ms())
      .Add("total_ms", StepMs(r.received_at, r.ended_at))
      .Add("stream", r.stream)
      .Add("tries", r.attempts.size());
  return out;
}

}  // namespace

std::string RecordJson(const RequestRecord& r) {
  std::vector<std::string> attempts;
  for (const AttemptRecord& a : r.attempts) attempts.push_back(AttemptJson(a));
  JsonObject out = BriefFields(r);
  out.Add("tenant", r.tenant)
      .Add("store_tokens", r.store_tokens)
      .Add("predicted_tokens", r.predicted_tokens)
      .Add("tokenize_ms", StepMs(r.tokenize_from, r.tokenized_at))
      .Add("queued_ms", ToMilliseconds(r.queued))
      .Add("request_bytes", r.request_bytes)
      .Add("reply_bytes", r.reply_bytes)
      .AddRaw("attempts", http::JsonArray(attempts));
  return out.ToString();
}

std::string BriefRecordJson(const RequestRecord& record) { return BriefFields(record).ToString(); }

}  // namespace ember::router
