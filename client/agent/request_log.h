// RequestLog: the last requests, each with what was done for it and what that cost; GET
// /ember/requests shows it. A record is filled while its request runs and after it (save, push).
//
// Concurrency: the HTTP loop's thread only. Records are shared with the request they belong to.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "proto/model/routing.h"

namespace ember::agent {

// Times in milliseconds; a negative one did not happen.
struct RequestRecord {
  std::string id;
  double unix_time = 0;  // of arrival, seconds
  std::string path;
  bool stream = false;
  uint64_t prompt_tokens = 0;
  Route route = Route::kRecompute;
  uint64_t local_tokens = 0;    // of the prefix, in the slot when it was chosen
  uint64_t remote_tokens = 0;   // of the prefix, in the slot after loading from the store
  uint64_t matched_tokens = 0;  // of the prefix, in the store
  // As the engine counted.
  bool counted = false;
  uint64_t engine_cached = 0;
  uint64_t engine_computed = 0;
  double prompt_ms = -1;
  // Of our own work, in order.
  double tokenize_ms = -1;
  double queue_ms = -1;  // waiting for a slot
  double match_ms = -1;
  double transfer_ms = -1;
  double rebuild_ms = -1;
  double restore_ms = -1;
  double overhead_ms = -1;  // from arrival until the request went to the engine
  double ttft_ms = -1;      // from arrival until the reply's first byte
  double total_ms = -1;
  double save_ms = -1;
  double push_ms = -1;
  int slot = -1;
  // Of the loaded segments, received before the load began, or while it waited for them.
  uint64_t prefetched_segments = 0;
  double prefetch_lead_ms = -1;  // the last of those was there that long before the load began
  uint64_t segments = 0;         // loaded
  uint64_t bytes_loaded = 0;
  uint64_t pushed_segments = 0;
  uint64_t pushed_bytes = 0;
  int status = 0;  // HTTP
  std::vector<std::string> notes;

  std::string ToJson() const;
};

class RequestLog {
 public:
  static constexpr size_t kMaxRecords = 1000;

  std::shared_ptr<RequestRecord> Begin();
  // A JSON array, newest first; at most `limit` records, only those with that id unless it is
  // empty.
  std::string ToJson(size_t limit, std::string_view id) const;

 private:
  std::deque<std::shared_ptr<RequestRecord>> records_;  // newest first
};

}  // namespace ember::agent
