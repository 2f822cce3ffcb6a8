// SegmentMemory: where a shard's segments lie, as the engine sees it; kvstore/memory implements it.
//
// Concurrency: the shard's thread only. The memory outlives the engine and never moves.
#pragma once

#include <cstdint>
#include <optional>

#include "proto/base/bytes.h"

namespace ember::kv {

// A run of bytes in the memory, as it was handed out. `length` includes rounding up.
struct Extent {
  uint64_t offset = 0;
  uint64_t length = 0;
  uint64_t end() const { return offset + length; }
  bool operator==(const Extent&) const = default;
};

class SegmentMemory {
 public:
  virtual ~SegmentMemory() = default;

  // At least `length` contiguous bytes, or nothing when no hole is that large. The bytes are
  // whatever was there before.
  virtual std::optional<Extent> Allocate(uint64_t length) = 0;
  // `extent` exactly as Allocate returned it, once.
  virtual void Free(const Extent& extent) = 0;
  // All of it is about to be written.
  virtual void Prepare(const Extent& extent) = 0;
  virtual MutableByteSpan At(const Extent& extent) = 0;

  // Bytes that Allocate reserves for a request of `length`.
  virtual uint64_t RoundedLength(uint64_t length) const = 0;
  virtual uint64_t capacity() const = 0;
  virtual uint64_t used() const = 0;
};

}  // namespace ember::kv
