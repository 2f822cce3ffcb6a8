#include "tests/bench/replica/held_slots.h"

namespace ember::bench {
namespace {

// A chain's end is evicted before its beginning, so its last block speaks for all before it.
bool HasAllUpTo(const sim::BlockCache& cache, const BlockHash& last) {
  const uint64_t name = std::hash<BlockHash>()(last);
  return cache.Match(std::span(&name, 1)) == 1;
}

// A block's name stands for all before it.
bool IsPrefix(std::span<const BlockHash> prefix, std::span<const BlockHash> chain) {
  return prefix.size() <= chain.size() && chain[prefix.size() - 1] == prefix.back();
}

}  // namespace

bool HeldSlots::Contained(std::span<const BlockHash> chain, size_t but) const {
  for (size_t i = 0; i < slots_.size(); ++i) {
    if (i != but && IsPrefix(chain, slots_[i])) return true;
  }
  return false;
}

size_t HeldSlots::SlotFor(std::span<const BlockHash> chain) const {
  size_t free = slots_.size();
  for (size_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i].empty()) {
      free = i;
    } else if (IsPrefix(slots_[i], chain)) {
      return i;
    }
  }
  return free;
}

std::vector<HeldSlots::Change> HeldSlots::Update(const sim::BlockCache& cache,
                                                 std::span<const BlockHash> added) {
  std::vector<bool> changed(slots_.size());
  if (!added.empty() && !Contained(added, slots_.size())) {
    const size_t slot = SlotFor(added);
    if (slot == slots_.size()) slots_.emplace_back();
    changed.resize(slots_.size());
    slots_[slot].assign(added.begin(), added.end());
    changed[slot] = true;
  }
  std::vector<Change> changes;
  for (size_t i = 0; i < slots_.size(); ++i) {
    std::vector<BlockHash>& slot = slots_[i];
    const size_t before = slot.size();
    while (!slot.empty() && !HasAllUpTo(cache, slot.back())) slot.pop_back();
    if (slot.size() != before && !slot.empty() && Contained(slot, i)) slot.clear();
    if (changed[i] || slot.size() != before) changes.emplace_back(static_cast<uint32_t>(i), slot);
  }
  return changes;
}

std::vector<HeldSlots::Change> HeldSlots::Clear() {
  std::vector<Change> changes;
  for (size_t i = 0; i < slots_.size(); ++i) {
    if (!slots_[i].empty())
      changes.emplace_back(static_cast<uint32_t>(i), std::vector<BlockHash>());
  }
  slots_.clear();
  return changes;
}

}  // namespace ember::bench
