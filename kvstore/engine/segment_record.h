// SegmentRecord: what a node must know of a segment to keep it below the memory: in the disk tier's
// index, in each record on disk, in region footers and in the catalog.
#pragma once

#include <cstdint>

#include "proto/model/segment.h"

namespace ember::kv {

struct SegmentRecord {
  BlockKey key;
  GenerationId generation;
  uint64_t tenant_hash = 0;
  uint64_t purge_epoch = 0;  // the newest purge known when it was put; see Tombstones
  int64_t created_ms = 0;    // wall clock, of the put
  uint32_t payload_length = 0;
  uint32_t header_length = 0;  // of the encoded SegmentHeader

  bool operator==(const SegmentRecord&) const = default;
};

}  // namespace ember::kv
