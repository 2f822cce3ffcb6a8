#include "router/telemetry/explain_log.h"

#include <algorithm>

#include "client/http/json_object.h"
#include "router/telemetry/record_json.h"

namespace ember::router {

void ExplainLog::Add(FinishedRequest request) {
  requests_.push_front(std::move(request));
  if (requests_.size() > max_requests_) requests_.pop_back();
}

std::string ExplainLog::Json(std::string_view request_id, size_t limit) const {
  std::vector<std::string> out;
  for (const FinishedRequest& r : requests_) {
    if (out.size() >= limit) break;
    if (request_id.empty() || r->request_id == request_id) out.push_back(RecordJson(*r));
  }
  return http::JsonObject().AddRaw("requests", http::JsonArray(out)).ToString();
}

bool ExplainLog::Has(std::string_view request_id) const {
  return std::any_of(requests_.begin(), requests_.end(),
                     [&](const FinishedRequest& r) { return r->request_id == request_id; });
}

std::string ExplainLog::BriefJson(uint64_t after, size_t limit) const {
  std::vector<std::string> out;
  for (const FinishedRequest& r : requests_) {
    if (out.size() >= limit || r->sequence <= after) break;
    out.push_back(BriefRecordJson(*r));
  }
  return http::JsonArray(out);
}

}  // namespace ember::router
