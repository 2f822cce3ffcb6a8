// ExplainLog: the newest finished requests with every candidate's numbers, for `/admin/explain` and
// the page. Bounded. One thread (the router's loop).
#pragma once

#include <deque>
#include <string>
#include <string_view>

#include "router/telemetry/request_record.h"

namespace ember::router {

class ExplainLog {
 public:
  explicit ExplainLog(size_t max_requests) : max_requests_(max_requests) {}
  void Add(FinishedRequest request);
  // {"requests":[...]}: the newest `limit`, newest first; only those with that id unless it is
  // empty.
  std::string Json(std::string_view request_id, size_t limit) const;
  bool Has(std::string_view request_id) const;
  // A list in brief of the newest `limit` after that sequence number, newest first.
  std::string BriefJson(uint64_t after, size_t limit) const;

 private:
  const size_t max_requests_;
  std::deque<FinishedRequest> requests_;  // newest first
};

}  // namespace ember::router
