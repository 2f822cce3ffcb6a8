// Promotion: room in memory for a segment that is being read from a lower tier. Nobody sees it
// until it is published, and the room is given back when it is not.
//
// Move-only; the shard's thread only; must be gone before the engine is.
#pragma once

#include "kvstore/engine/segment_index.h"
#include "kvstore/engine/segment_record.h"

namespace ember::kv {

class ShardEngine;

class Promotion {
 public:
  Promotion(ShardEngine* engine, const SegmentRecord& record, const Extent& extent)
      : engine_(engine), record_(record), extent_(extent) {}
  Promotion(Promotion&& other) noexcept
      : engine_(std::exchange(other.engine_, nullptr)),
        record_(other.record_),
        extent_(other.extent_) {}
  Promotion& operator=(Promotion&&) = delete;
  ~Promotion();

  // Payload, encoded SegmentHeader, and what fills the last block: fill it, check it.
  MutableByteSpan memory() const;
  // Visible from now, unless it was purged or has expired meanwhile: then the reason. Bytes that
  // came into memory another way meanwhile are kept instead. Once.
  MissReason Publish(Pin* pin);

 private:
  friend class ShardEngine;

  ShardEngine* engine_;
  const SegmentRecord record_;
  const Extent extent_;
};

}  // namespace ember::kv
