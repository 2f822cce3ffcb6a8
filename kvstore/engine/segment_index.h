// SegmentIndex: what is stored, where it lies, who reads it, and what goes when room is needed.
//
// Memory is contiguous per segment. When no hole is large enough, one contiguous window is cleared:
// it starts at one of the policy's first victims and grows over the neighbour that is worth less.
// So a put evicts at most its own length plus one segment at the edge, whatever sizes were stored
// before; see README.
// Concurrency: the shard's thread only.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <unordered_map>

#include "kvstore/engine/engine_metrics.h"
#include "kvstore/engine/engine_observer.h"
#include "kvstore/engine/entry.h"
#include "kvstore/engine/forgotten_keys.h"
#include "kvstore/engine/segment_record.h"

namespace ember::kv {

class SegmentIndex {
 public:
  SegmentIndex(SegmentMemory* memory, std::unique_ptr<EvictionPolicy> policy, size_t forgotten_keys,
               EngineMetrics* metrics);
  // Every Pin must be gone.
  ~SegmentIndex();
  // Null for none; outlives the index.
  void SetObserver(EngineObserver* observer) { observer_ = observer; }

  Entry* Find(const BlockKey& key);
  MissReason ReasonFor(const BlockKey& key) const { return forgotten_.Reason(key); }
  // Why a key that is not stored here is gone.
  void Remember(const BlockKey& key, MissReason reason) { forgotten_.Add(key, reason); }

  // Room for `length` bytes, evicting if need be. Nothing when what may be evicted is not enough.
  std::optional<Extent> Allocate(uint64_t length);
  // Gives back room that was not published.
  void Free(const Extent& extent);
  // Makes the segment visible; its extent came from Allocate, its key is not stored.
  Entry* Publish(Entry entry);
  // Takes the segment out of the index; its room is free once nobody reads it any more.
  void Drop(Entry* entry, MissReason reason);

  // Calls `visit` with the stored segments among the next `limit` extents from the one at offset
  // `from` on; it may drop the segment it is given. Returns where to go on, 0 after the last.
  uint64_t Visit(uint64_t from, size_t limit, const std::function<void(Entry*)>& visit);

  void Touch(Entry* entry);
  void Pin(Entry* entry);
  void Unpin(Entry* entry);
  void Hold(Entry* entry) { ++entry->holds; }
  void Unhold(Entry* entry);
  // The evictable segments, the first to go first, until `visit` returns false.
  void VisitVictims(const std::function<bool(const Entry&)>& visit) const;

  ByteSpan Payload(const Entry& entry) const;
  ByteSpan Header(const Entry& entry) const;
  SegmentMemory& memory() const { return *memory_; }
  size_t size() const { return entries_.size(); }
  size_t pinned() const { return pinned_; }

 private:
  struct Slot {
    uint64_t end = 0;
    Entry* entry = nullptr;  // null: a put that is not committed
  };
  using Slots = std::map<uint64_t, Slot>;  // every extent handed out, by offset
  struct Window {
    Slots::iterator first;
    Slots::iterator last;  // past the window
    int64_t worth = 0;     // of the segment in it that is worth most
  };
  using Entries = std::unordered_map<BlockKey, Entry>;

  std::optional<Window> CheapestWindow(uint64_t length);
  std::optional<Window> WindowAround(Slots::iterator seed, uint64_t length, int64_t max_worth);
  void Evict(const Window& window);
  void FreeSlot(const Extent& extent);
  void FreeDropped(Entry* entry);
  void SetGauges();

  SegmentMemory* const memory_;
  const std::unique_ptr<EvictionPolicy> policy_;
  EngineMetrics* const metrics_;
  EngineObserver* observer_ = nullptr;
  ForgottenKeys forgotten_;
  Entries entries_;
  Slots slots_;
  std::unordered_map<Entry*, Entries::node_type> dropped_;  // still read by somebody
  size_t pinned_ = 0;
};

// Keeps one segment's bytes where they are. Move-only; the shard's thread only; must be gone before
// the engine is.
class Pin {
 public:
  Pin() = default;
  Pin(SegmentIndex* index, Entry* entry) : index_(index), entry_(entry) { index_->Pin(entry_); }
  Pin(Pin&& other) noexcept : index_(other.index_), entry_(std::exchange(other.entry_, nullptr)) {}
  Pin& operator=(Pin&& other) noexcept {
    std::swap(index_, other.index_);
    std::swap(entry_, other.entry_);
    return *this;
  }
  ~Pin() {
    if (entry_ != nullptr) index_->Unpin(entry_);
  }

  bool held() const { return entry_ != nullptr; }
  ByteSpan payload() const { return index_->Payload(*entry_); }
  // The encoded SegmentHeader.
  ByteSpan header() const { return index_->Header(*entry_); }
  // Where the payload begins in the shard's memory.
  uint64_t offset() const { return entry_->extent.offset; }

 private:
  friend class ShardEngine;
  SegmentIndex* index_ = nullptr;
  Entry* entry_ = nullptr;
};

// As a Pin, for the node's own work on a segment: eviction passes it over, but it is no use of it.
class Hold {
 public:
  Hold() = default;
  Hold(SegmentIndex* index, Entry* entry) : index_(index), entry_(entry) { index_->Hold(entry_); }
  Hold(Hold&& other) noexcept
      : index_(other.index_), entry_(std::exchange(other.entry_, nullptr)) {}
  Hold& operator=(Hold&& other) noexcept {
    std::swap(index_, other.index_);
    std::swap(entry_, other.entry_);
    return *this;
  }
  ~Hold() {
    if (entry_ != nullptr) index_->Unhold(entry_);
  }

  bool held() const { return entry_ != nullptr; }
  // It has left the index meanwhile: nobody is to get it any more.
  bool dropped() const { return entry_->dropped; }
  ByteSpan payload() const { return index_->Payload(*entry_); }
  // Payload, encoded SegmentHeader, zeros up to the end of the extent.
  ByteSpan extent() const { return index_->memory().At(entry_->extent); }
  SegmentRecord record() const;
  const Checksum& checksum() const { return entry_->checksum; }

 private:
  SegmentIndex* index_ = nullptr;
  Entry* entry_ = nullptr;
};

}  // namespace ember::kv
