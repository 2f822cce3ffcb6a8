// EngineOptions: every bound of one shard. Full means "busy", at once; larger means "invalid".
#pragma once

#include <cstddef>
#include <cstdint>

#include "proto/base/time.h"

namespace ember::kv {

struct EngineOptions {
  uint64_t max_segment_bytes = 64ull << 20;  // payload
  size_t max_attempts = 4096;                // open puts
  size_t max_leases = 65536;
  size_t max_leased_keys = 1 << 20;         // of all leases together
  size_t forgotten_keys = 1 << 16;          // departures remembered for the reason of a miss
  Duration attempt_deadline = seconds(30);  // reserve to commit
  Duration max_lease = seconds(60);
  // A writer without progress for so long no longer keeps others from putting the same key.
  Duration takeover_after = seconds(2);
  // Shares of the memory that uncommitted puts, and leased segments, may hold.
  double max_reserved_share = 0.5;
  double max_leased_share = 0.5;
  Duration ttl{};                   // how long a segment may live; zero = for ever
  size_t max_ttl_overrides = 4096;  // namespaces with a time to live of their own
  size_t max_tombstones = 16384;    // purged scopes remembered one by one
  size_t sweep_extents = 1024;      // looked at by one ExpireDue for segments whose time is over
};

}  // namespace ember::kv
