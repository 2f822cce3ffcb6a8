// SlotTable: a hash table of numbered items: four bytes a slot, which hold the item's number and
// six bits of its hash, so that a search touches one cache line and then the item itself, seldom
// any other.
//
// It is cut into parts by hash, each an array of its own that grows by half when it is 90 % full;
// the parts have different sizes, so that they do not grow all at once. So nothing ever stops for a
// rehash of everything, and what is allocated is a third more than what is used, at any size. A
// part is replaced as a whole and never reordered, so readers need no lock.
//
// Concurrency: Find and the fetches from any thread inside a stay of ReaderEpochs; the rest from
// one writer. `Items` gives uint64_t HashOf(n), seeded, and Fetch(n), which prefetches what HashOf
// and a comparison read. Item 0 is none.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <vector>

#include "router/index/memory_budget.h"
#include "router/index/reader_epochs.h"

namespace ember::router {

inline constexpr uint32_t kMaxTableItems = 1u << 26;

// Whose share of the budget a table's parts come from: that of the blocks, or of all else.
enum class TableMemory : uint8_t { kBlocks, kRest };

template <typename Items>
class SlotTable {
 public:
  using Slot = std::atomic<uint32_t>;
  // Where an item is, or is to be put. Void after any change of the table.
  struct Place {
    uint32_t item = 0;  // 0: none matches
    Slot* slot = nullptr;
  };

  // `epochs`: null when nobody but the writer reads. `max_items` decides the number of parts.
  SlotTable(Items items, size_t max_items, MemoryBudget& budget, TableMemory memory,
            ReaderEpochs* epochs)
      : items_(items),
        budget_(budget),
        memory_(memory),
        epochs_(epochs),
        part_count_(static_cast<uint32_t>(max_items / kItemsPerPart + 1)),
        parts_(std::make_unique<std::atomic<uintptr_t>[]>(part_count_)),
        counts_(part_count_) {}
  SlotTable(const SlotTable&) = delete;
  SlotTable& operator=(const SlotTable&) = delete;
  ~SlotTable() {
    for (uint32_t p = 0; p < part_count_; ++p) Free(parts_[p].load());
    for (const Replaced& old : replaced_) Free(old.part);
  }

  template <typename Match>
  uint32_t Find(uint64_t hash, const Match& match) const {
    const uintptr_t part = parts_[PartOf(hash)].load(std::memory_order_acquire);
    if (part == 0) return 0;
    return Search(part, hash, match).item;
  }

  // Room for one more item of that hash. False: there is none, and no memory for it.
  bool Prepare(uint64_t hash) {
    const uint32_t p = PartOf(hash);
    const uintptr_t part = parts_[p].load(std::memory_order_relaxed);
    const size_t slots = part == 0 ? 0 : SlotsOf(part);
    if ((counts_[p].filled + 1) * kFullDenominator <= slots * kFullNumerator) return true;
    return Rebuild(p) || counts_[p].filled < slots;
  }
  // After Prepare; without a slot if that found no memory for the first of them.
  template <typename Match>
  Place Locate(uint64_t hash, const Match& match) const {
    const uintptr_t part = parts_[PartOf(hash)].load(std::memory_order_relaxed);
    return part == 0 ? Place{} : Search(part, hash, match);
  }
  void Insert(Place place, uint64_t hash, uint32_t item) {
    Counts& counts = counts_[PartOf(hash)];
    if (place.slot->load(std::memory_order_relaxed) == kEmpty) ++counts.filled;
    ++counts.live;
    place.slot->store(TagOf(hash) | item, std::memory_order_release);
  }
  void Erase(uint64_t hash, uint32_t item) {
    const uint32_t p = PartOf(hash);
    const uintptr_t part = parts_[p].load(std::memory_order_relaxed);
    if (part == 0) return;
    const Place place = Search(part, hash, [&](uint32_t other) { return other == item; });
    if (place.item == 0) return;
    place.slot->store(kGone, std::memory_order_release);
    --counts_[p].live;
  }

  // Two steps of fetching ahead what a search reads.
  void FetchLine(uint64_t hash) const {
    const uintptr_t part = parts_[PartOf(hash)].load(std::memory_order_acquire);
    if (part != 0) __builtin_prefetch(LineOf(part, hash));
  }
  void FetchItem(uint64_t hash) const {
    const uintptr_t part = parts_[PartOf(hash)].load(std::memory_order_acquire);
    if (part == 0) return;
    const Slot* line = LineOf(part, hash);
    for (uint32_t i = 0; i < kLineSlots; ++i) {
      const uint32_t slot = line[(hash + i) % kLineSlots].load(std::memory_order_acquire);
      if (slot == kEmpty) return;
      if (Matches(slot, hash)) return items_.Fetch(slot & kItemMask);
    }
  }

  // Frees parts that no reader can see any more.
  void Reclaim() {
    std::erase_if(replaced_, [&](const Replaced& old) {
      if (!epochs_->Passed(old.ticket)) return false;
      Free(old.part);
      return true;
    });
  }
  size_t replaced_parts() const { return replaced_.size(); }

  size_t bytes() const {
    return part_count_ * (sizeof(parts_[0]) + sizeof(Counts));  // without the parts themselves
  }
  // Of the parts, which the budget was asked for.
  size_t part_bytes() const { return part_bytes_; }

 private:
  static constexpr size_t kItemsPerPart = 2048;
  static constexpr uint32_t kLineSlots = 16;
  static constexpr size_t kLineBytes = kLineSlots * sizeof(Slot);
  static constexpr uint32_t kItemMask = kMaxTableItems - 1;
  static constexpr uint32_t kEmpty = 0;
  static constexpr uint32_t kGone = kMaxTableItems;  // a tag, and no item
  static constexpr size_t kFullNumerator = 90;
  static constexpr size_t kFullDenominator = 100;

  // Sizes of a part in lines. A part goes through every fourth of them, beginning at one of the
  // first four, so that it grows by about half; which it has is kept in the low bits of its
  // address.
  static constexpr size_t kSizes = 64;
  static constexpr size_t kSizeStep = 4;
  static constexpr std::array<uint32_t, kSizes> kLines = [] {
    std::array<uint32_t, kSizes> lines{};
    double exact = 1;
    for (size_t i = 0; i < kSizes; ++i) {
      lines[i] = static_cast<uint32_t>(exact + 0.5);
      exact *= 1.10668192;  // the fourth root of 1.5
    }
    return lines;
  }();

  struct Counts {
    uint32_t filled = 0;  // slots that are not empty
    uint32_t live = 0;    // items
  };
  struct Replaced {
    uintptr_t part;
    ReaderEpochs::Ticket ticket;
  };

  static Slot* SlotsAt(uintptr_t part) { return reinterpret_cast<Slot*>(part & ~(kSizes - 1)); }
  static uint32_t LineCount(uintptr_t part) { return kLines[part & (kSizes - 1)]; }
  static size_t SlotsOf(uintptr_t part) { return size_t{LineCount(part)} * kLineSlots; }
  static uint32_t TagOf(uint64_t hash) {
    return static_cast<uint32_t>(hash >> 4 & 63) * kMaxTableItems;
  }
  static bool Matches(uint32_t slot, uint64_t hash) {
    return (slot ^ TagOf(hash)) < kMaxTableItems && (slot & kItemMask) != 0;
  }
  uint32_t PartOf(uint64_t hash) const {
    return static_cast<uint32_t>((hash >> 32) * part_count_ >> 32);
  }
  static uint32_t FirstLine(uintptr_t part, uint64_t hash) {
    return static_cast<uint32_t>((hash & UINT32_MAX) * LineCount(part) >> 32);
  }
  static Slot* LineOf(uintptr_t part, uint64_t hash) {
    return SlotsAt(part) + size_t{FirstLine(part, hash)} * kLineSlots;
  }

  // From a slot of its line round the line, then on in the next one.
  template <typename Match>
  Place Search(uintptr_t part, uint64_t hash, const Match& match) const {
    const uint32_t lines = LineCount(part);
    uint32_t number = FirstLine(part, hash);
    Slot* gone = nullptr;
    for (uint32_t searched = 0; searched < lines; ++searched) {
      Slot* line = SlotsAt(part) + size_t{number} * kLineSlots;
      for (uint32_t i = 0; i < kLineSlots; ++i) {
        Slot& at = line[(hash + i) % kLineSlots];
        const uint32_t slot = at.load(std::memory_order_acquire);
        if (slot == kEmpty) return {0, gone != nullptr ? gone : &at};
        if (slot == kGone && gone == nullptr) gone = &at;
        if (Matches(slot, hash) && match(slot & kItemMask)) return {slot & kItemMask, &at};
      }
      if (++number == lines) number = 0;
    }
    return {0, gone};
  }

  bool Rebuild(uint32_t p) {
    const uintptr_t old = parts_[p].load(std::memory_order_relaxed);
    // As small as it can be with a quarter of what may fill it free: gone items may fill the old.
    size_t size = p % kSizeStep;
    while (counts_[p].live * kFullDenominator * 4 >
           size_t{kLines[size]} * kLineSlots * kFullNumerator * 3) {
      if (size + kSizeStep >= kSizes) return false;
      size += kSizeStep;
    }
    const size_t bytes = kLines[size] * kLineBytes;
    const bool taken =
        memory_ == TableMemory::kBlocks ? budget_.TakeForTables(bytes) : budget_.TakeForRest(bytes);
    if (!taken) return false;
    part_bytes_ += bytes;
    auto* slots = static_cast<Slot*>(::operator new(bytes, std::align_val_t(kLineBytes)));
    for (size_t i = 0; i < bytes / sizeof(Slot); ++i) new (slots + i) Slot(kEmpty);
    const uintptr_t fresh = reinterpret_cast<uintptr_t>(slots) | size;
    if (old != 0) CopyItems(old, fresh);
    counts_[p].filled = counts_[p].live;
    parts_[p].store(fresh, std::memory_order_release);
    if (old == 0) return true;
    if (epochs_ == nullptr) {
      Free(old);
    } else {
      replaced_.push_back({old, epochs_->Retire()});
    }
    return true;
  }

  void CopyItems(uintptr_t from, uintptr_t to) const {
    constexpr size_t kAhead = 24;
    const Slot* slots = SlotsAt(from);
    const size_t count = SlotsOf(from);
    for (size_t i = 0; i < count + kAhead; ++i) {
      if (i < count) {
        const uint32_t item = slots[i].load(std::memory_order_relaxed) & kItemMask;
        if (item != 0) items_.Fetch(item);
      }
      if (i < kAhead) continue;
      const uint32_t item = slots[i - kAhead].load(std::memory_order_relaxed) & kItemMask;
      if (item == 0) continue;
      const uint64_t hash = items_.HashOf(item);
      const Place place = Search(to, hash, [](uint32_t) { return false; });
      place.slot->store(TagOf(hash) | item, std::memory_order_relaxed);
    }
  }

  void Free(uintptr_t part) {
    if (part == 0) return;
    const size_t bytes = LineCount(part) * kLineBytes;
    ::operator delete(SlotsAt(part), std::align_val_t(kLineBytes));
    if (memory_ == TableMemory::kBlocks) {
      budget_.GiveBackTables(bytes);
    } else {
      budget_.GiveBackRest(bytes);
    }
    part_bytes_ -= bytes;
  }

  const Items items_;
  MemoryBudget& budget_;
  const TableMemory memory_;
  ReaderEpochs* const epochs_;
  const uint32_t part_count_;
  const std::unique_ptr<std::atomic<uintptr_t>[]> parts_;
  std::vector<Counts> counts_;
  std::vector<Replaced> replaced_;
  size_t part_bytes_ = 0;
};

}  // namespace ember::router
