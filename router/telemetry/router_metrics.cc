#include "router/telemetry/router_metrics.h"

#include <algorithm>
#include <cmath>
#include <string>

namespace ember::router {
namespace {

// What clients and dashboards tell apart; every other status counts by its hundred.
constexpr std::array kNamedStatuses = {200, 400, 401, 403, 404, 408, 413,
                                       422, 429, 499, 500, 502, 503, 504};
constexpr std::array kRouteNames = {"local", "remote", "recompute", "none"};

// 1 us to 10 ms: index and policy take microseconds.
std::vector<double> DecisionSeconds() {
  return {1e-6, 2.5e-6, 5e-6, 1e-5, 2.5e-5, 5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 1e-2};
}

// The named ones, then none, 1xx to 5xx, and what is no status.
size_t StatusNumber(int status) {
  const size_t named = static_cast<size_t>(
      std::find(kNamedStatuses.begin(), kNamedStatuses.end(), status) - kNamedStatuses.begin());
  if (named < kNamedStatuses.size()) return named;
  if (status >= 600 || status < 0) return kNamedStatuses.size() + 6;
  return kNamedStatuses.size() + static_cast<size_t>(status / 100);
}

std::string StatusLabel(size_t number) {
  if (number < kNamedStatuses.size()) return std::to_string(kNamedStatuses[number]);
  const size_t hundred = number - kNamedStatuses.size();
  return hundred == 0 ? "none" : hundred == 6 ? "other" : std::to_string(hundred) + "xx";
}

size_t RouteNumber(std::string_view route) {
  const auto it = std::find(kRouteNames.begin(), kRouteNames.end() - 1, route);
  return static_cast<size_t>(it - kRouteNames.begin());
}

std::array<Histogram*, kRouteNames.size()> ByRoute(MetricsRegistry& registry, const char* name,
                                                   const char* help) {
  std::array<Histogram*, kRouteNames.size()> out{};
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] = &registry.AddHistogram(name, help, {{"route", kRouteNames[i]}});
  }
  return out;
}

}  // namespace

RouterMetrics::RouterMetrics(MetricsRegistry& r)
    : registry(r),
      in_flight(r.AddGauge("ember_router_in_flight", "Requests under way")),
      index_blocks(r.AddGauge("ember_router_index_blocks", "Blocks that the prefix index knows")),
      refused_busy(r.AddCounter("ember_router_refused_total", "Requests over the limit: 429")),
      client_gone(r.AddCounter("ember_router_client_gone_total",
                               "Requests whose client left before the reply's end")),
      failed_midway(r.AddCounter("ember_router_failed_midway_total",
                                 "Replies that broke after their first byte")),
      certificate_expiry(r.AddGauge("ember_router_certificate_expiry_timestamp_seconds",
                                    "When the listener's certificate ends; 0: no TLS")),
      reload_failed(r.AddGauge("ember_router_reload_failed",
                               "1 while the newest SIGHUP found faulty files of TLS")),
      decide(r.AddHistogram("ember_router_decide_seconds", "Index lookup and policy", {},
                            DecisionSeconds())),
      inter_token(r.AddHistogram("ember_router_inter_token_seconds",
                                 "Between two pieces of an event stream's body")),
      retries(r, "ember_router_retries_total", "Attempts given up for another replica", "reason",
              {"connect", "reset", "busy", "hung", "status_503", "status_429", "refused"}),
      model_requests(r, "ember_router_model_requests_total",
                     "Requests for a model that some replica lists", "model", {}, 64),
      decisions_(r, "ember_router_decisions_total", "Decisions by reason", "reason",
                 {"turn", "draw", "least_load", "less_loaded_of_two", "only_candidate",
                  "conversation", "conversation_overflow", "no_conversation_id", "longest_match",
                  "no_match", "lowest_cost", "least_load_of_equals", "no_tokens"}),
      ttft_(ByRoute(r, "ember_router_ttft_seconds",
                    "From a streaming request's head to its reply's first byte")),
      duration_(ByRoute(r, "ember_router_request_seconds",
                        "From a request's head to its reply's last byte")),
      prediction_error_(r.AddHistogram("ember_router_ttft_error_seconds",
                                       "Predicted against measured time to first token, absolute")),
      predicted_hits_(r.AddCounter("ember_router_hit_tokens_total",
                                   "Prompt tokens that need no prefill, of counted requests",
                                   {{"source", "predicted"}})),
      real_hits_(r.AddCounter("ember_router_hit_tokens_total",
                              "Prompt tokens that need no prefill, of counted requests",
                              {{"source", "real"}})),
      prompt_tokens_(r.AddCounter("ember_router_prompt_tokens_total",
                                  "Prompt tokens of counted requests, as the engine counted")) {}

Counter& RouterMetrics::Requests(std::string_view policy, size_t route, int status) {
  auto it = std::find_if(policies_.begin(), policies_.end(),
                         [&](const OfPolicy& p) { return p.name == policy; });
  if (it == policies_.end()) it = policies_.insert(it, OfPolicy{.name = policy});
  const size_t number = StatusNumber(status);
  Counter*& counter = it->requests[route][number];
  if (counter == nullptr) {
    counter = &registry.AddCounter("ember_router_requests_total", "Requests answered",
                                   {{"policy", policy.empty() ? "none" : std::string(policy)},
                                    {"route", kRouteNames[route]},
                                    {"status", StatusLabel(number)}});
  }
  return *counter;
}

void RouterMetrics::CountTtft(const RequestRecord& record, size_t route) {
  const AttemptRecord* served = record.served();
  if (record.status != 200 || record.ttft_ms() <= 0) return;
  ttft_[route]->Observe(record.ttft_ms() / 1000);
  if (record.predicted_ttft_ms <= 0) return;
  const double measured_ms = ToMilliseconds(served->first_byte_at - served->sent_at);
  prediction_error_.Observe(std::abs(measured_ms - record.predicted_ttft_ms) / 1000);
}

void RouterMetrics::Count(const RequestRecord& record) {
  const size_t route = RouteNumber(record.route);
  Requests(record.policy, route, record.status).Add();
  for (const AttemptRecord& attempt : record.attempts) {
    const std::string_view reason = attempt.decision.reason;
    decisions_.At(reason.substr(0, reason.find(':'))).Add();
    decide.Observe(ToMilliseconds(attempt.decided_at - attempt.decide_from) / 1000);
  }
  CountTtft(record, route);
  if (record.status == 200) {
    duration_[route]->Observe(ToMilliseconds(record.ended_at - record.received_at) / 1000);
  }
  if (!record.counted) return;
  predicted_hits_.Add(record.predicted_tokens);
  real_hits_.Add(record.cached_tokens);
  prompt_tokens_.Add(record.cached_tokens + record.computed_tokens);
}

}  // namespace ember::router
