// RequestRecord: what became of one request, as plain values: filled by the router step by step
// and, when the request is over, shared unchanged by all that tell of it (explain, access log,
// spans, page). Never a prompt, a reply's text or a credential.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "proto/base/time.h"
#include "proto/model/routing.h"
#include "router/telemetry/trace_context.h"

namespace ember::router {

// One replica that was tried. Times are epoch where the step was not reached.
struct AttemptRecord {
  RoutingDecision decision;
  std::vector<PrefixMatch> matches;  // of each of its candidates; empty: tokens unknown
  TimePoint decide_from, matched_at, decided_at;  // index lookup, then policy
  TimePoint sent_at, first_byte_at, ended_at;
  int status = 0;       // of its reply; 0: none came
  uint64_t span = 0;    // of the attempt, when the request is traced
  std::string failure;  // why another one was tried; empty: it answered
};

struct RequestRecord {
  uint64_t sequence = 0;  // position among the finished requests, from 1; 0: not finished
  std::string request_id;
  std::string method;
  std::string path;         // without the query
  std::string_view policy;  // of static life
  std::string model;        // that it asked for, where that mattered; its first 200 bytes
  std::string tenant;       // digest of the credential; empty: there was none

  TraceContext trace;

  int64_t received_unix_ns = 0;  // received_at by the wall clock; set when it is finished
  TimePoint received_at, tokenize_from, tokenized_at, ended_at;
  Duration queued{};  // waited for a replica to have room

  uint64_t prompt_tokens = 0;           // as we counted; 0: we did not
  uint64_t store_tokens = 0;            // presumed to be in the store, unbroken from the start
  std::vector<AttemptRecord> attempts;  // the last one served

  std::string outcome;  // "done", "client_gone", "failed_midway: ...", "refused: ...", "shutdown"
  int status = 0;       // as the client saw it; 0: nothing
  std::string_view route;  // "local", "remote", "recompute"; empty: not known. Of static life
  bool stream = false;
  double predicted_ttft_ms = 0;   // from sending to the first byte; 0: the policy predicts nothing
  uint64_t predicted_tokens = 0;  // of the prompt, that need no prefill
  uint64_t engine_prompt_tokens = 0;  // as the engine counted; 0: it did not
  bool counted = false;               // the engine counted the next two
  uint64_t cached_tokens = 0;
  uint64_t computed_tokens = 0;
  uint64_t request_bytes = 0;  // bodies
  uint64_t reply_bytes = 0;

  const AttemptRecord* served() const { return attempts.empty() ? nullptr : &attempts.back(); }
  std::string_view replica() const {
    return attempts.empty() ? std::string_view() : attempts.back().decision.replica;
  }
  // From the request's head to the reply's first byte; 0: no byte came, or it was no stream, whose
  // first byte alone says when there was a token.
  double ttft_ms() const {
    return !stream || attempts.empty() || attempts.back().first_byte_at == TimePoint()
               ? 0
               : ToMilliseconds(attempts.back().first_byte_at - received_at);
  }
};

using FinishedRequest = std::shared_ptr<const RequestRecord>;

}  // namespace ember::router
