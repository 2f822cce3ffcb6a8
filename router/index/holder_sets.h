// HolderSets: sets of holders, each kept once however many blocks have the same holders. A set
// never changes; a block that gains or loses a holder gets another set. So a walk along a chain
// looks at a set only where it differs from the one before, and a block's holders cost four bytes.
//
// A set's members are lives of holders (HolderLives) in ascending order, with the tiers of each.
// Concurrency: Members from any thread inside a stay of ReaderEpochs; the rest from the writer.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "router/index/holder.h"
#include "router/index/memory_budget.h"
#include "router/index/retired_items.h"
#include "router/index/seeded_mix.h"

namespace ember::router {

using LifeId = uint16_t;
inline constexpr size_t kMaxLives = 4096;

// Bits, one for each HolderTier, and one for what is only presumed.
using TierBits = uint8_t;
inline constexpr TierBits kPresumedTier = 8;
inline constexpr TierBits kDeviceTiers = 1 | kPresumedTier;
inline constexpr TierBits kReportedTiers = 7;
inline constexpr TierBits kAllTiers = 15;
constexpr TierBits BitOf(HolderTier tier) {
  return static_cast<TierBits>(1u << static_cast<uint8_t>(tier));
}

// A life of a holder, and where it has the block.
class SetMember {
 public:
  SetMember() = default;
  SetMember(LifeId life, TierBits tiers) : bits_(static_cast<uint16_t>(life << 4 | tiers)) {}
  LifeId life() const { return bits_ >> 4; }
  TierBits tiers() const { return bits_ & kAllTiers; }
  bool operator==(const SetMember&) const = default;

 private:
  uint16_t bits_ = 0;
};

class HolderSets {
 public:
  using SetId = uint32_t;
  static constexpr SetId kEmpty = 1;

  HolderSets(MemoryBudget& budget, uint64_t seed);
  HolderSets(const HolderSets&) = delete;
  HolderSets& operator=(const HolderSets&) = delete;
  ~HolderSets();

  std::span<const SetMember> Members(SetId set) const {
    const Record& record = At(set);
    return {record.members(), record.count};
  }
  // The tiers in which the life is a member; 0: it is none.
  TierBits TiersOf(SetId set, LifeId life) const;

  struct Changed {
    SetId set = 0;        // 0: there is no memory for it (never of kEmpty)
    TierBits before = 0;  // where the life had been a member
  };
  // The set with, or without, the life in those tiers. Somebody must hold the answer before the
  // next call.
  Changed With(SetId set, LifeId life, TierBits tiers);
  Changed Without(SetId set, LifeId life, TierBits tiers);
  // The set without all lives for which `gone` says so.
  SetId WithoutAll(SetId set, const std::function<bool(LifeId)>& gone);

  void Hold(SetId set) { ++At(set).held; }
  void Release(SetId set);
  void Reclaim(ReaderEpochs& epochs);
  uint32_t retired_count() const { return retired_.count(); }

  // Allocated at the start, and not taken from the budget.
  size_t bytes() const {
    return max_chunks_ * sizeof(chunks_[0]) + buckets_.size() * sizeof(SetId) +
           kMaxLives * sizeof(SetMember);
  }

  uint32_t& Link(SetId set) { return At(set).next; }

 private:
  // Sets lie in units of 16 bytes; a set's number is that of its first unit.
  static constexpr size_t kUnitBytes = 16;
  static constexpr uint32_t kChunkUnits = 4096;
  static constexpr size_t kSizeClasses = 11;  // 1, 2, 4 ... 1024 units
  struct Record {
    uint32_t held;  // by so many blocks
    uint32_t next;  // in its bucket, or in the list that it waits in
    uint32_t hash;
    uint16_t count;
    const SetMember* members() const { return reinterpret_cast<const SetMember*>(&count + 1); }
    SetMember* members() { return reinterpret_cast<SetMember*>(&count + 1); }
  };
  struct alignas(64) Chunk {
    std::array<std::byte, kChunkUnits * kUnitBytes> bytes;
  };
  // A change that was made lately, which the next block of a chain mostly needs as well.
  struct Change {
    SetId from = 0;
    Changed to;
    LifeId life = 0;
    TierBits tiers = 0;
    bool add = false;
  };

  Record& At(SetId set) const {
    Chunk& chunk = *chunks_[set / kChunkUnits].load(std::memory_order_acquire);
    return *reinterpret_cast<Record*>(&chunk.bytes[set % kChunkUnits * kUnitBytes]);
  }
  static size_t SizeClass(size_t members);
  Change& RecentChange(SetId from, LifeId life, TierBits tiers, bool add);
  // The set of these members, made when there is none; 0: no memory.
  SetId Intern(std::span<const SetMember> members);
  uint32_t HashOf(std::span<const SetMember> members) const;
  SetId Allocate(size_t size_class);
  void GrowBuckets();

  MemoryBudget& budget_;
  const SeededMix mix_;
  const size_t max_chunks_;
  const std::unique_ptr<std::atomic<Chunk*>[]> chunks_;
  size_t chunk_count_ = 0;
  uint32_t next_unit_ = 1;  // of the last chunk; number 0 is none
  std::array<SetId, kSizeClasses> free_{};
  std::vector<SetId> buckets_;
  size_t size_ = 0;
  RetiredItems<HolderSets> retired_;
  std::array<Change, 16> recent_;
  std::vector<SetMember> scratch_;
};

}  // namespace ember::router
