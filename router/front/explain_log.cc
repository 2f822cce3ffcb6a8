#include "router/front/explain_log.h"

#include <fmt/format.h>

#include "client/http/json_writer.h"

namespace ember::router {
namespace {

void AppendDecision(const RoutingDecision& d, std::string* out) {
  *out +=
      fmt::format(R"({{"replica":{},"policy":{},"reason":{},"predicted_route":"{}","candidates":[)",
                  http::JsonString(d.replica), http::JsonString(d.policy),
                  http::JsonString(d.reason), RouteName(d.predicted_route));
  for (size_t i = 0; i < d.candidates.size(); ++i) {
    const CandidateCost& c = d.candidates[i];
    *out += fmt::format(
        R"({}{{"replica":{},"queue_ms":{:.3f},"load_ms":{:.3f},"prefill_ms":{:.3f},"total_ms":{:.3f},)"
        R"("local_tokens":{},"remote_tokens":{}}})",
        i == 0 ? "" : ",", http::JsonString(c.replica), c.queue_ms, c.load_ms, c.prefill_ms,
        c.total_ms, c.local_tokens, c.remote_tokens);
  }
  *out += "]}";
}

void AppendRequest(const ExplainedRequest& r, std::string* out) {
  *out += fmt::format(
      R"({{"request_id":{},"prompt_tokens":{},"store_tokens":{},"tokenize_ms":{:.3f},"decide_us":{:.1f},)"
      R"("outcome":{},"status":{},"route":{},"predicted_ttft_ms":{:.3f},"measured_ttft_ms":{:.3f},)"
      R"("cached_tokens":{},"computed_tokens":{},"decisions":[)",
      http::JsonString(r.request_id), r.prompt_tokens, r.store_tokens, r.tokenize_ms, r.decide_us,
      http::JsonString(r.outcome), r.status, http::JsonString(r.route), r.predicted_ttft_ms,
      r.measured_ttft_ms, r.cached_tokens, r.computed_tokens);
  for (size_t i = 0; i < r.decisions.size(); ++i) {
    if (i > 0) *out += ',';
    AppendDecision(r.decisions[i], out);
  }
  *out += "]}";
}

}  // namespace

void ExplainLog::Add(ExplainedRequest request) {
  requests_.push_front(std::move(request));
  if (requests_.size() > max_requests_) requests_.pop_back();
}

std::string ExplainLog::Json(std::string_view request_id, size_t limit) const {
  std::string out = "{\"requests\":[";
  for (const ExplainedRequest& r : requests_) {
    if (limit == 0) break;
    if (!request_id.empty() && r.request_id != request_id) continue;
    if (out.back() != '[') out += ',';
    AppendRequest(r, &out);
    --limit;
  }
  return out + "]}";
}

}  // namespace ember::router
