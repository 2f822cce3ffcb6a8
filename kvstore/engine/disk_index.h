// DiskIndex: which segments lie on disk, and where: about 104 bytes a segment, without their bytes.
//
// Regions are evicted as a whole, so the segments of a region are chained: taking one out costs
// nothing for the others. The disk tier fills it; the engine asks it and takes out what was purged
// or has expired. Pure: no I/O. Concurrency: the shard's thread only.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "kvstore/engine/segment_record.h"

namespace ember::kv {

using RegionId = uint32_t;

// A record's place: the offset of its head block, and what it is. 96 bytes.
struct DiskEntry {
  static constexpr uint64_t kBlockBytes = 4096;

  SegmentRecord record;
  RegionId region = 0;
  uint32_t block = 0;  // of the head, in the region

  uint64_t offset() const { return block * kBlockBytes; }

 private:
  friend class DiskIndex;
  static constexpr uint32_t kNone = UINT32_MAX;
  uint32_t next = kNone;  // in its region, or among the free slots
  uint32_t previous = kNone;
};

class DiskIndex {
 public:
  struct Region {
    uint64_t sequence = 0;    // grows with each opening: the smallest is the oldest
    uint64_t live_bytes = 0;  // of the indexed segments' payloads and headers
    uint32_t entries = 0;
    uint32_t pins = 0;  // reads in flight and leases: must not be evicted
    double heat = 0;    // uses, fading with every eviction
    bool evictable = false;

   private:
    friend class DiskIndex;
    uint32_t first = DiskEntry::kNone;
  };

  // A region must be known before its segments are.
  void AddRegion(RegionId region, uint64_t sequence);
  // Sealed, or written off: may be evicted from now.
  void SetEvictable(RegionId region);
  // Takes out the region with all its segments; `removed` hears of each. It must not be pinned.
  void RemoveRegion(RegionId region, const std::function<void(const DiskEntry&)>& removed);
  // The evictable, unpinned region worth least: bytes in use times heat, the oldest of equals.
  std::optional<RegionId> Coldest() const;
  // After an eviction: old uses count for less.
  void FadeHeat();
  const Region* FindRegion(RegionId region) const;

  // False when the key is there already; it then stays where it is.
  bool Insert(const SegmentRecord& record, RegionId region, uint64_t offset);
  const DiskEntry* Find(const BlockKey& key) const;
  // The entry must be there.
  void Erase(const BlockKey& key);
  void CountUse(const DiskEntry& entry) { regions_.at(entry.region).heat += 1; }
  void ForEachIn(RegionId region, const std::function<void(const DiskEntry&)>& visit) const;

  // For walks that may be interrupted: slots 0 .. slots(), null where nothing is now.
  size_t slots() const { return slots_.size(); }
  const DiskEntry* At(size_t slot) const;

  size_t size() const { return size_; }
  uint64_t live_bytes() const { return live_bytes_; }

 private:
  friend class RegionPin;

  size_t Ideal(const BlockKey& key) const {
    return std::hash<BlockKey>()(key) & (table_.size() - 1);
  }
  size_t PositionOf(const BlockKey& key) const;
  void Grow();
  void EraseAt(size_t position);
  void Unlink(uint32_t slot);

  std::deque<DiskEntry> slots_;
  std::vector<bool> used_;
  uint32_t free_slot_ = DiskEntry::kNone;
  std::vector<uint32_t> table_;  // slots, open addressing, at most half full
  std::map<RegionId, Region> regions_;
  size_t size_ = 0;
  uint64_t live_bytes_ = 0;
};

// Keeps one region from being evicted. Move-only; must be gone before the index is.
class RegionPin {
 public:
  RegionPin() = default;
  RegionPin(DiskIndex* index, RegionId region) : index_(index), region_(region) {
    ++index_->regions_.at(region).pins;
  }
  RegionPin(RegionPin&& other) noexcept
      : index_(std::exchange(other.index_, nullptr)), region_(other.region_) {}
  RegionPin& operator=(RegionPin&& other) noexcept {
    std::swap(index_, other.index_);
    std::swap(region_, other.region_);
    return *this;
  }
  ~RegionPin() {
    if (index_ != nullptr) --index_->regions_.at(region_).pins;
  }

 private:
  DiskIndex* index_ = nullptr;
  RegionId region_ = 0;
};

}  // namespace ember::kv
