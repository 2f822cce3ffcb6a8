// ExplainLog: the newest decisions with every candidate's numbers, for `/ember/explain`. Bounded.
// One thread (the router's loop).
#pragma once

#include <deque>
#include <string>
#include <string_view>

#include "proto/model/routing.h"

namespace ember::router {

struct ExplainedRequest {
  std::string request_id;
  uint64_t prompt_tokens = 0;
  uint64_t store_tokens = 0;
  double tokenize_ms = 0;
  double decide_us = 0;                    // index and policy
  std::vector<RoutingDecision> decisions;  // one an attempt; the last one served
  std::string outcome;                     // "under way", "done", "client_gone", "failed: ..."
  int status = 0;                          // as the client saw it
  std::string route;                       // as the agent reported it; empty: it did not
  double predicted_ttft_ms = 0;            // 0: the policy predicts nothing
  double measured_ttft_ms = 0;             // from the request's head; 0: no byte came
  uint64_t cached_tokens = 0;
  uint64_t computed_tokens = 0;
};

class ExplainLog {
 public:
  explicit ExplainLog(size_t max_requests) : max_requests_(max_requests) {}
  void Add(ExplainedRequest request);
  // The newest `limit`, newest first; only those with that id unless it is empty.
  std::string Json(std::string_view request_id, size_t limit) const;

 private:
  const size_t max_requests_;
  std::deque<ExplainedRequest> requests_;  // newest first
};

}  // namespace ember::router
