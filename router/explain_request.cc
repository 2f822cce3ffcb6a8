// Router::Explain: the decision about a request that is not sent.
#include <algorithm>
#include <utility>

#include "client/http/json_object.h"
#include "router/policy/registry.h"
#include "router/router.h"
#include "router/telemetry/record_json.h"

namespace ember::router {
namespace {

namespace asio = boost::asio;
using http::JsonObject;

constexpr std::string_view kChat = "/v1/chat/completions";
constexpr std::string_view kCompletions = "/v1/completions";

// Those that can't be chosen now, with the reason.
std::string ExcludedJson(const ReplicaSet& replicas, const MemberSet& takers,
                         const std::vector<Candidate>& candidates) {
  std::vector<std::string> out;
  for (const ReplicaNumber n : replicas.numbers()) {
    if (std::ranges::any_of(candidates, [n](const Candidate& c) { return c.number == n; })) {
      continue;
    }
    const ReplicaSet::Member& m = replicas.at(n);
    JsonObject excluded;
    excluded.Add("replica", m.config.id);
    if (m.view.rank) excluded.Add("rank", *m.view.rank);
    out.push_back(excluded.Add("state", m.endpoint->state())
                      .Add("in_flight", m.under_way())
                      .Add("why", takers.test(n) ? m.endpoint->health.why()
                                                 : "it does not serve the model, or is not pinned")
                      .ToString());
  }
  return http::JsonArray(out);
}

}  // namespace

asio::awaitable<Result<std::string>> Router::Explain(http::Request& request) {
  const std::string asked_path(request.QueryParam("path").value_or(
      request.body.find("\"messages\"") == request.body.npos ? kCompletions : kChat));
  const bool verify = request.QueryParam("verify") == "1";
  request.SetTarget(asked_path);
  Routing routing;
  parts_.telemetry->Begin(request, &routing.record);
  EMBER_CO_RETURN_IF_ERROR(Admit(request, &routing));
  if (!routing.options.has_prompt) {
    co_return InvalidError("path: " + asked_path.substr(0, 100) + " carries no prompt");
  }
  // Every policy's answer comes with the costs, which need the tokens.
  RequestRecord& record = routing.record;
  record.tokenize_from = SteadyClock().Now();
  auto prompt = co_await parts_.tokenizer->Tokenize(request.path, request.body);
  record.tokenized_at = SteadyClock().Now();
  const std::string tokens = prompt.ok() ? "known" : prompt.status().ToString();
  if (prompt.ok()) {
    record.prompt_tokens = (*prompt)->token_count;
    routing.prompt = *std::move(prompt);
  }
  if (const auto error = FindModel(request, &routing)) {
    co_return error->status == 404 ? NotFoundError(error->message) : InvalidError(error->message);
  }
  std::vector<Candidate> candidates = Candidates(routing);
  record.outcome = candidates.empty() ? "not sent: no replica can take it now" : "not sent";
  const std::string excluded = ExcludedJson(*parts_.replicas, Takers(routing), candidates);
  std::vector<PrefixVerifier::Told> told;
  for (const Candidate& c : candidates) told.push_back({.replica = c.number});
  if (!candidates.empty()) {
    Decide(candidates, &routing);
    --TurnOf(routing);
    AttemptRecord& attempt = record.attempts.back();
    if (attempt.decision.candidates.empty()) {
      Routing costed{.options = routing.options, .prompt = routing.prompt, .model = routing.model};
      costed.options.policy = FindPolicy("cache_aware");
      Decide(std::move(candidates), &costed);
      attempt.decision.candidates = costed.record.attempts.back().decision.candidates;
      attempt.matches = costed.record.attempts.back().matches;
    }
  }
  record.received_at = record.tokenize_from;
  record.ended_at = SteadyClock().Now();
  JsonObject out;
  out.Add("tokens", tokens).AddRaw("excluded", excluded).AddRaw("request", RecordJson(record));
  if (verify) {
    if (routing.prompt == nullptr) told.clear();
    for (size_t i = 0; i < told.size(); ++i) {
      const auto& match = record.attempts.back().matches.at(i);
      told[i].tokens = match.any_tier_tokens;
      told[i].store_tokens =
          match.store_tokens.value_or(static_cast<uint32_t>(record.store_tokens));
    }
    auto verified = co_await parts_.verifier->Verify(routing.prompt, std::move(told));
    if (!verified.ok()) co_return verified.status();
    out.AddRaw("verified", *verified);
  }
  co_return out.ToString();
}

}  // namespace ember::router
