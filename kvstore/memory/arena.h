// Arena: a shard's segment memory: one memfd, mapped once, of a fixed size that is never exceeded.
//
// Pages come from the kernel 2 MiB ahead of their first use, unless `prealloc` took them all
// before. Extents are multiples of 4 KiB and start on a page, as direct I/O and mapping by other
// processes need it; so a segment loses less than 4 KiB to rounding. Concurrency: the shard's
// thread only. It owns the mapping; spans from At die with it.
#pragma once

#include <memory>

#include "kvstore/engine/segment_memory.h"
#include "kvstore/memory/free_space.h"
#include "proto/base/status.h"

namespace ember::kv {

class Arena final : public SegmentMemory {
 public:
  static constexpr uint64_t kGranule = 4096;

  // `capacity` is rounded down to whole granules. kInvalid below one; kNoSpace above
  // what the machine has; else kNoSpace or kUnavailable with the system's reason. `prealloc` makes
  // every page present now, which fails if memory is short.
  static Result<std::unique_ptr<Arena>> Make(uint64_t capacity, bool prealloc);
  ~Arena() override;
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  std::optional<Extent> Allocate(uint64_t length) override;
  void Free(const Extent& extent) override { space_.Give(extent.offset, extent.length); }
  void Prepare(const Extent& extent) override;
  MutableByteSpan At(const Extent& extent) override {
    return {base_ + extent.offset, extent.length};
  }
  uint64_t RoundedLength(uint64_t length) const override {
    return (length + kGranule - 1) / kGranule * kGranule;
  }
  uint64_t capacity() const override { return capacity_; }
  uint64_t used() const override { return capacity_ - space_.free(); }

  const FreeSpace& space() const { return space_; }
  // A descriptor of the memory for readers in other processes, to be closed by the caller. From the
  // first call on nobody but this mapping can write to it, and it keeps its size and all its pages.
  // kUnavailable with the system's reason.
  Result<int> ShareReadOnly();
  // What the kernel has given it so far, in bytes.
  uint64_t present_bytes() const;

 private:
  Arena(int fd, std::byte* base, uint64_t capacity)
      : fd_(fd), base_(base), capacity_(capacity), space_(capacity) {}

  const int fd_;
  std::byte* const base_;
  const uint64_t capacity_;
  uint64_t present_ = 0;  // pages below this offset have been asked for
  FreeSpace space_;
};

}  // namespace ember::kv
