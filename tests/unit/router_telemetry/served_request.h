// A request that was served in every respect, for tests of what is told of it.
#pragma once

#include <string>

#include "router/telemetry/request_record.h"

namespace ember::router {

inline TimePoint At(int ms) { return TimePoint() + milliseconds(1'000'000 + ms); }

inline RequestRecord Served(const std::string& id = "id") {
  RequestRecord r{.request_id = id, .method = "POST", .path = "/v1/completions"};
  r.policy = "cache_aware";
  r.received_at = At(0);
  r.tokenize_from = At(1);
  r.tokenized_at = At(3);
  r.prompt_tokens = 1000;
  r.outcome = "done";
  r.status = 200;
  r.route = "local";
  r.stream = true;
  r.predicted_ttft_ms = 15;
  r.predicted_tokens = 960;
  r.counted = true;
  r.cached_tokens = 900;
  r.computed_tokens = 100;
  AttemptRecord attempt;
  attempt.decision = {.replica = "r1", .policy = "cache_aware", .reason = "lowest_cost: 15 ms"};
  attempt.decision.candidates.push_back(
      {.replica = "r1", .prefill_ms = 15, .total_ms = 15, .ttft_ms = 15, .local_tokens = 960});
  attempt.decision.candidates.push_back({.replica = "r2", .queue_ms = 7, .total_ms = 40});
  attempt.decide_from = At(3);
  attempt.matched_at = At(4);
  attempt.decided_at = At(6);
  attempt.sent_at = At(10);
  attempt.first_byte_at = At(30);
  attempt.ended_at = At(90);
  r.attempts.push_back(attempt);
  return r;
}

}  // namespace ember::router
