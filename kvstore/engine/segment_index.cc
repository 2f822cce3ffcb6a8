#include "kvstore/engine/segment_index.h"

#include <algorithm>

namespace ember::kv {
namespace {

// Of the policy's first victims, how many are weighed against each other as the place to make room.
constexpr int kSeedsCompared = 8;
// And how many are tried while none can be grown to the length (pinned neighbours).
constexpr int kSeedsTried = 4096;

bool Evictable(const Entry* entry) {
  return entry != nullptr && entry->tracked && entry->holds == 0;
}

}  // namespace

SegmentIndex::SegmentIndex(SegmentMemory* memory, std::unique_ptr<EvictionPolicy> policy,
                           size_t forgotten_keys, EngineMetrics* metrics)
    : memory_(memory), policy_(std::move(policy)), metrics_(metrics), forgotten_(forgotten_keys) {
  metrics_->capacity_bytes.Set(static_cast<double>(memory_->capacity()));
}

SegmentIndex::~SegmentIndex() { EMBER_CHECK(pinned_ == 0, "a Pin outlived the engine"); }

Entry* SegmentIndex::Find(const BlockKey& key) {
  auto it = entries_.find(key);
  return it == entries_.end() ? nullptr : &it->second;
}

std::optional<Extent> SegmentIndex::Allocate(uint64_t length) {
  std::optional<Extent> extent = memory_->Allocate(length);
  if (!extent) {
    std::optional<Window> window = CheapestWindow(memory_->RoundedLength(length));
    if (!window) return std::nullopt;
    Evict(*window);
    extent = memory_->Allocate(length);
    EMBER_CHECK(extent, "a cleared window is a hole");
  }
  slots_[extent->offset] = {extent->end(), nullptr};
  SetGauges();
  return extent;
}

void SegmentIndex::Free(const Extent& extent) { FreeSlot(extent); }

void SegmentIndex::FreeSlot(const Extent& extent) {
  slots_.erase(extent.offset);
  memory_->Free(extent);
  SetGauges();
}

Entry* SegmentIndex::Publish(Entry entry) {
  auto [it, inserted] = entries_.try_emplace(entry.key, std::move(entry));
  EMBER_CHECK(inserted, "a key is published once");
  Entry* stored = &it->second;
  slots_.at(stored->extent.offset).entry = stored;
  policy_->Add(stored);
  if (observer_ != nullptr) observer_->Stored(stored->key, Tier::kMemory, stored->generation);
  SetGauges();
  return stored;
}

void SegmentIndex::Drop(Entry* entry, MissReason reason) {
  if (entry->dropped) return;
  forgotten_.Add(entry->key, reason);
  if (observer_ != nullptr) {
    observer_->Removed(entry->key, Tier::kMemory, entry->generation, reason);
  }
  entry->dropped = true;
  Entries::node_type node = entries_.extract(entry->key);
  if (entry->pins == 0) {
    reason == MissReason::kEvicted ? policy_->Evict(entry) : policy_->Remove(entry);
  }
  if (entry->pins > 0 || entry->holds > 0) {
    dropped_.emplace(entry, std::move(node));
  } else {
    FreeSlot(entry->extent);
  }
  SetGauges();
}

uint64_t SegmentIndex::Visit(uint64_t from, size_t limit,
                             const std::function<void(Entry*)>& visit) {
  auto it = slots_.lower_bound(from);
  for (size_t i = 0; i < limit && it != slots_.end(); ++i) {
    Entry* entry = (it++)->second.entry;
    if (entry != nullptr && !entry->dropped) visit(entry);
  }
  return it == slots_.end() ? 0 : it->first;
}

void SegmentIndex::Touch(Entry* entry) {
  if (entry->tracked) policy_->Touch(entry);
}

void SegmentIndex::Pin(Entry* entry) {
  if (entry->pins++ > 0) return;
  policy_->Remove(entry);
  ++pinned_;
  SetGauges();
}

void SegmentIndex::Unpin(Entry* entry) {
  EMBER_CHECK(entry->pins > 0, "unpinned more often than pinned");
  if (--entry->pins > 0) return;
  --pinned_;
  if (!entry->dropped) {
    policy_->Add(entry);
  } else if (entry->holds == 0) {
    FreeDropped(entry);
  }
  SetGauges();
}

void SegmentIndex::Unhold(Entry* entry) {
  EMBER_CHECK(entry->holds > 0, "released more often than held");
  if (--entry->holds == 0 && entry->dropped && entry->pins == 0) FreeDropped(entry);
}

void SegmentIndex::FreeDropped(Entry* entry) {
  FreeSlot(entry->extent);
  dropped_.erase(entry);
}

void SegmentIndex::VisitVictims(const std::function<bool(const Entry&)>& visit) const {
  policy_->VisitVictims([&](EvictionHook* hook) { return visit(*static_cast<Entry*>(hook)); });
}

ByteSpan SegmentIndex::Payload(const Entry& entry) const {
  return memory_->At(entry.extent).first(entry.payload_length);
}

ByteSpan SegmentIndex::Header(const Entry& entry) const {
  return memory_->At(entry.extent).subspan(entry.payload_length, entry.header_length);
}

std::optional<SegmentIndex::Window> SegmentIndex::CheapestWindow(uint64_t length) {
  std::optional<Window> best;
  if (length > memory_->capacity()) return best;
  int tried = 0;
  policy_->VisitVictims([&](EvictionHook* hook) {
    if (!Evictable(static_cast<Entry*>(hook))) return true;  // held for a moment
    auto seed = slots_.find(static_cast<Entry*>(hook)->extent.offset);
    std::optional<Window> window =
        WindowAround(seed, length, best ? best->worth : std::numeric_limits<int64_t>::max());
    if (window) best = window;
    // A window of nothing but the first victim cannot be beaten.
    if (best && best->worth == hook->worth) return false;
    return ++tried < (best ? kSeedsCompared : kSeedsTried);
  });
  return best;
}

// Grows from the seed to the cheaper side until the hole is long enough. Nothing when both sides
// are barred, or when it would cost a segment worth `max_worth` or more.
std::optional<SegmentIndex::Window> SegmentIndex::WindowAround(Slots::iterator seed,
                                                               uint64_t length, int64_t max_worth) {
  Window window{seed, std::next(seed), seed->second.entry->worth};
  for (;;) {
    if (window.worth >= max_worth) return std::nullopt;
    const bool at_start = window.first == slots_.begin();
    const bool at_end = window.last == slots_.end();
    const uint64_t hole_begin = at_start ? 0 : std::prev(window.first)->second.end;
    const uint64_t hole_end = at_end ? memory_->capacity() : window.last->first;
    if (hole_end - hole_begin >= length) return window;
    const Entry* left = at_start ? nullptr : std::prev(window.first)->second.entry;
    const Entry* right = at_end ? nullptr : window.last->second.entry;
    if (!Evictable(left) && !Evictable(right)) return std::nullopt;
    if (!Evictable(right) || (Evictable(left) && left->worth < right->worth)) {
      --window.first;
      window.worth = std::max(window.worth, left->worth);
    } else {
      ++window.last;
      window.worth = std::max(window.worth, right->worth);
    }
  }
}

void SegmentIndex::Evict(const Window& window) {
  for (auto it = window.first; it != window.last;) {
    Entry* entry = (it++)->second.entry;
    metrics_->evictions.Add();
    metrics_->evicted_bytes.Add(entry->extent.length);
    Drop(entry, MissReason::kEvicted);
  }
}

void SegmentIndex::SetGauges() {
  metrics_->used_bytes.Set(static_cast<double>(memory_->used()));
  metrics_->segments.Set(static_cast<double>(entries_.size()));
  metrics_->pinned_segments.Set(static_cast<double>(pinned_));
}

SegmentRecord Hold::record() const {
  return {.key = entry_->key,
          .generation = entry_->generation,
          .tenant_hash = entry_->tenant_hash,
          .purge_epoch = entry_->epoch,
          .created_ms = entry_->created_ms,
          .payload_length = static_cast<uint32_t>(entry_->payload_length),
          .header_length = entry_->header_length};
}

}  // namespace ember::kv
