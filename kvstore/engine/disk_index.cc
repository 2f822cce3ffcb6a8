#include "kvstore/engine/disk_index.h"

#include "proto/base/check.h"

namespace ember::kv {
namespace {

constexpr size_t kFirstTable = 64;
// One use that has faded so far counts no more: else a region that was used once would outlive all
// that never were.
constexpr double kCold = 0.5;

uint64_t BytesOf(const SegmentRecord& record) {
  return uint64_t{record.payload_length} + record.header_length;
}

}  // namespace

void DiskIndex::AddRegion(RegionId region, uint64_t sequence) {
  const bool added = regions_.try_emplace(region).second;
  EMBER_CHECK(added, "a region is added once");
  regions_.at(region).sequence = sequence;
}

void DiskIndex::SetEvictable(RegionId region) { regions_.at(region).evictable = true; }

void DiskIndex::RemoveRegion(RegionId region,
                             const std::function<void(const DiskEntry&)>& removed) {
  Region& gone = regions_.at(region);
  EMBER_CHECK(gone.pins == 0, "a pinned region stays");
  while (gone.first != DiskEntry::kNone) {
    const DiskEntry entry = slots_[gone.first];
    Erase(entry.record.key);
    removed(entry);
  }
  regions_.erase(region);
}

std::optional<RegionId> DiskIndex::Coldest() const {
  std::optional<RegionId> coldest;
  double least = 0;
  uint64_t age = 0;
  for (const auto& [id, region] : regions_) {
    if (!region.evictable || region.pins > 0) continue;
    const double worth =
        region.heat < kCold ? 0 : static_cast<double>(region.live_bytes) * region.heat;
    if (coldest && (worth > least || (worth == least && region.sequence > age))) continue;
    coldest = id;
    least = worth;
    age = region.sequence;
  }
  return coldest;
}

// Half of it is gone when a third of the regions have been replaced.
void DiskIndex::FadeHeat() {
  const double keep = 1 - 2.0 / (static_cast<double>(regions_.size()) + 2);
  for (auto& [id, region] : regions_) region.heat *= keep;
}

const DiskIndex::Region* DiskIndex::FindRegion(RegionId region) const {
  auto it = regions_.find(region);
  return it == regions_.end() ? nullptr : &it->second;
}

bool DiskIndex::Insert(const SegmentRecord& record, RegionId region, uint64_t offset) {
  if (2 * (size_ + 1) > table_.size()) Grow();
  const size_t position = PositionOf(record.key);
  if (table_[position] != DiskEntry::kNone) return false;
  uint32_t slot = free_slot_;
  if (slot == DiskEntry::kNone) {
    slot = static_cast<uint32_t>(slots_.size());
    slots_.emplace_back();
    used_.push_back(false);
  } else {
    free_slot_ = slots_[slot].next;
  }
  used_[slot] = true;
  table_[position] = slot;
  Region& home = regions_.at(region);
  DiskEntry& entry = slots_[slot];
  entry.record = record;
  entry.region = region;
  entry.block = static_cast<uint32_t>(offset / DiskEntry::kBlockBytes);
  entry.previous = DiskEntry::kNone;
  entry.next = home.first;
  if (home.first != DiskEntry::kNone) slots_[home.first].previous = slot;
  home.first = slot;
  ++home.entries;
  home.live_bytes += BytesOf(record);
  live_bytes_ += BytesOf(record);
  ++size_;
  return true;
}

const DiskEntry* DiskIndex::Find(const BlockKey& key) const {
  if (size_ == 0) return nullptr;
  const uint32_t slot = table_[PositionOf(key)];
  return slot == DiskEntry::kNone ? nullptr : &slots_[slot];
}

// Where the key is, or where it would go.
size_t DiskIndex::PositionOf(const BlockKey& key) const {
  size_t position = Ideal(key);
  while (table_[position] != DiskEntry::kNone && slots_[table_[position]].record.key != key) {
    position = (position + 1) & (table_.size() - 1);
  }
  return position;
}

void DiskIndex::Grow() {
  const size_t size = std::max(kFirstTable, 2 * table_.size());
  table_.assign(size, DiskEntry::kNone);
  for (uint32_t slot = 0; slot < slots_.size(); ++slot) {
    if (used_[slot]) table_[PositionOf(slots_[slot].record.key)] = slot;
  }
}

void DiskIndex::Erase(const BlockKey& key) {
  const size_t position = PositionOf(key);
  const uint32_t slot = table_[position];
  EMBER_CHECK(slot != DiskEntry::kNone, "only what is there is erased");
  EraseAt(position);
  Unlink(slot);
  used_[slot] = false;
  slots_[slot].next = free_slot_;
  free_slot_ = slot;
  --size_;
}

// Moves later entries of the same run into the gap, so that lookups need no marks of the deleted
// (Knuth, TAOCP 6.4, algorithm R).
void DiskIndex::EraseAt(size_t position) {
  const size_t mask = table_.size() - 1;
  size_t gap = position;
  for (size_t next = (gap + 1) & mask; table_[next] != DiskEntry::kNone; next = (next + 1) & mask) {
    const size_t ideal = Ideal(slots_[table_[next]].record.key);
    if (((next - ideal) & mask) < ((next - gap) & mask)) continue;
    table_[gap] = table_[next];
    gap = next;
  }
  table_[gap] = DiskEntry::kNone;
}

void DiskIndex::Unlink(uint32_t slot) {
  const DiskEntry& entry = slots_[slot];
  Region& home = regions_.at(entry.region);
  if (entry.previous != DiskEntry::kNone) {
    slots_[entry.previous].next = entry.next;
  } else {
    home.first = entry.next;
  }
  if (entry.next != DiskEntry::kNone) slots_[entry.next].previous = entry.previous;
  --home.entries;
  home.live_bytes -= BytesOf(entry.record);
  live_bytes_ -= BytesOf(entry.record);
}

void DiskIndex::ForEachIn(RegionId region,
                          const std::function<void(const DiskEntry&)>& visit) const {
  const Region* home = FindRegion(region);
  if (home == nullptr) return;
  for (uint32_t slot = home->first; slot != DiskEntry::kNone; slot = slots_[slot].next) {
    visit(slots_[slot]);
  }
}

const DiskEntry* DiskIndex::At(size_t slot) const {
  return slot < slots_.size() && used_[slot] ? &slots_[slot] : nullptr;
}

}  // namespace ember::kv
