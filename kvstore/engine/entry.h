// Entry: one segment that is stored, or was dropped while somebody still reads it. Never visible
// outside the engine; readers hold a Pin.
#pragma once

#include "kvstore/engine/eviction_policy.h"
#include "kvstore/engine/segment_memory.h"
#include "proto/base/time.h"
#include "proto/model/segment.h"

namespace ember::kv {

struct Entry : EvictionHook {
  BlockKey key;
  Extent extent;  // the payload, then the encoded header
  uint64_t payload_length = 0;
  uint32_t header_length = 0;
  uint32_t pins = 0;     // reads in flight and leases; evictable at 0
  uint32_t leases = 0;   // of those, leases
  uint32_t holds = 0;    // not evictable, but no use either: copied to disk, scrubbed
  bool dropped = false;  // out of the index; the last pin or hold frees it
  bool offered = false;  // the tier below has it or will look after it
  Checksum checksum{};   // of the payload
  GenerationId generation;
  uint64_t tenant_hash = 0;
  uint64_t epoch = 0;      // newest purge known when it was reserved
  int64_t created_ms = 0;  // wall clock, when it was reserved
  TimePoint expires_at = TimePoint::max();
};

}  // namespace ember::kv
