#include "router/index/holder_sets.h"

#include <algorithm>
#include <bit>

#include "proto/base/check.h"

namespace ember::router {
namespace {

constexpr size_t kFirstBuckets = 64;

}  // namespace

HolderSets::HolderSets(MemoryBudget& budget, uint64_t seed)
    : budget_(budget),
      mix_(seed),
      max_chunks_(budget.max() / sizeof(Chunk) + 1),
      chunks_(std::make_unique<std::atomic<Chunk*>[]>(max_chunks_)),
      buckets_(kFirstBuckets) {
  scratch_.reserve(kMaxLives);
  const SetId empty = Intern({});
  EMBER_CHECK(empty == kEmpty, "the first set, and memory enough for it");
  Hold(kEmpty);
}

HolderSets::~HolderSets() {
  for (size_t i = 0; i < max_chunks_; ++i) delete chunks_[i].load();
}

TierBits HolderSets::TiersOf(SetId set, LifeId life) const {
  const auto members = Members(set);
  const auto it = std::lower_bound(members.begin(), members.end(), life,
                                   [](SetMember m, LifeId want) { return m.life() < want; });
  return it == members.end() || it->life() != life ? 0 : it->tiers();
}

HolderSets::Changed HolderSets::With(SetId set, LifeId life, TierBits tiers) {
  Change& recent = RecentChange(set, life, tiers, true);
  if (recent.from == set) return recent.to;
  const auto members = Members(set);
  scratch_.assign(members.begin(), members.end());
  const auto it = std::lower_bound(scratch_.begin(), scratch_.end(), life,
                                   [](SetMember m, LifeId want) { return m.life() < want; });
  TierBits before = 0;
  if (it == scratch_.end() || it->life() != life) {
    scratch_.insert(it, SetMember(life, tiers));
  } else {
    before = it->tiers();
    *it = SetMember(life, before | tiers);
  }
  const Changed to{Intern(scratch_), before};
  if (to.set != 0) recent = {set, to, life, tiers, true};
  return to;
}

HolderSets::Changed HolderSets::Without(SetId set, LifeId life, TierBits tiers) {
  Change& recent = RecentChange(set, life, tiers, false);
  if (recent.from == set) return recent.to;
  const auto members = Members(set);
  scratch_.assign(members.begin(), members.end());
  const auto it = std::lower_bound(scratch_.begin(), scratch_.end(), life,
                                   [](SetMember m, LifeId want) { return m.life() < want; });
  if (it == scratch_.end() || it->life() != life) return {set, 0};
  const TierBits before = it->tiers();
  const auto left = static_cast<TierBits>(before & ~tiers);
  if (left != 0) {
    *it = SetMember(life, left);
  } else {
    scratch_.erase(it);
  }
  const Changed to{Intern(scratch_), before};
  if (to.set != 0) recent = {set, to, life, tiers, false};
  return to;
}

HolderSets::SetId HolderSets::WithoutAll(SetId set, const std::function<bool(LifeId)>& gone) {
  const auto members = Members(set);
  if (std::none_of(members.begin(), members.end(), [&](SetMember m) { return gone(m.life()); })) {
    return set;
  }
  scratch_.assign(members.begin(), members.end());
  std::erase_if(scratch_, [&](SetMember m) { return gone(m.life()); });
  return Intern(scratch_);
}

void HolderSets::Release(SetId set) {
  Record& record = At(set);
  if (--record.held > 0) return;
  for (Change& change : recent_) {
    if (change.from == set || change.to.set == set) change = {};
  }
  SetId* link = &buckets_[record.hash & (buckets_.size() - 1)];
  while (*link != set) link = &At(*link).next;
  *link = record.next;
  --size_;
  retired_.Add(*this, set);
}

void HolderSets::Reclaim(ReaderEpochs& epochs) {
  const ItemList items = retired_.Take(epochs);
  for (SetId set = items.first; set != 0;) {
    Record& record = At(set);
    const SetId next = record.next;
    SetId& free = free_[SizeClass(record.count)];
    record.next = free;
    free = set;
    set = next;
  }
}

size_t HolderSets::SizeClass(size_t members) {
  const size_t bytes = offsetof(Record, count) + sizeof(uint16_t) + members * sizeof(SetMember);
  return static_cast<size_t>(std::bit_width((bytes + kUnitBytes - 1) / kUnitBytes - 1));
}

HolderSets::Change& HolderSets::RecentChange(SetId from, LifeId life, TierBits tiers, bool add) {
  Change& change = recent_[(from ^ life ^ (uint32_t{tiers} << 1) ^ (add ? 1 : 0)) % recent_.size()];
  const bool same =
      change.from == from && change.life == life && change.tiers == tiers && change.add == add;
  if (!same) change = {};
  return change;
}

HolderSets::SetId HolderSets::Intern(std::span<const SetMember> members) {
  const uint32_t hash = HashOf(members);
  for (SetId set = buckets_[hash & (buckets_.size() - 1)]; set != 0; set = At(set).next) {
    const Record& record = At(set);
    if (record.hash == hash && std::ranges::equal(Members(set), members)) return set;
  }
  const SetId set = Allocate(SizeClass(members.size()));
  if (set == 0) return 0;
  if (++size_ > buckets_.size()) GrowBuckets();
  Record& record = At(set);
  SetId& bucket = buckets_[hash & (buckets_.size() - 1)];
  record.held = 0;
  record.next = bucket;
  record.hash = hash;
  record.count = static_cast<uint16_t>(members.size());
  std::copy(members.begin(), members.end(), record.members());
  bucket = set;
  return set;
}

uint32_t HolderSets::HashOf(std::span<const SetMember> members) const {
  uint64_t hash = members.size();
  for (const SetMember m : members) hash = mix_(hash, uint64_t{m.life()} << 4 | m.tiers());
  return static_cast<uint32_t>(hash >> 32);
}

HolderSets::SetId HolderSets::Allocate(size_t size_class) {
  if (const SetId set = free_[size_class]; set != 0) {
    free_[size_class] = At(set).next;
    return set;
  }
  const uint32_t units = 1u << size_class;
  if (chunk_count_ == 0 || next_unit_ + units > kChunkUnits) {
    // What is left of the last chunk becomes the smaller sets' that fit.
    if (chunk_count_ == max_chunks_ || !budget_.TakeForRest(sizeof(Chunk))) return 0;
    while (chunk_count_ > 0 && next_unit_ < kChunkUnits) {
      const auto rest = static_cast<size_t>(std::bit_width(kChunkUnits - next_unit_) - 1);
      const size_t own = std::min(rest, kSizeClasses - 1);
      const auto set = static_cast<SetId>((chunk_count_ - 1) * kChunkUnits + next_unit_);
      At(set).next = free_[own];
      free_[own] = set;
      next_unit_ += 1u << own;
    }
    chunks_[chunk_count_].store(new Chunk(), std::memory_order_release);
    next_unit_ = chunk_count_++ == 0 ? 1 : 0;
  }
  const auto set = static_cast<SetId>((chunk_count_ - 1) * kChunkUnits + next_unit_);
  next_unit_ += units;
  return set;
}

void HolderSets::GrowBuckets() {
  if (!budget_.TakeForRest(buckets_.size() * sizeof(SetId))) return;  // chains grow longer
  std::vector<SetId> grown(buckets_.size() * 2);
  for (SetId set : buckets_) {
    while (set != 0) {
      Record& record = At(set);
      const SetId next = record.next;
      SetId& bucket = grown[record.hash & (grown.size() - 1)];
      record.next = bucket;
      bucket = set;
      set = next;
    }
  }
  buckets_ = std::move(grown);
}

}  // namespace ember::router
