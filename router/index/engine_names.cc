#include "router/index/engine_names.h"

#include <utility>

namespace ember::router {

EngineNames::EngineNames(BlockNodes& nodes, const HolderSets& sets, MemoryBudget& budget,
                         uint64_t seed)
    : nodes_(nodes),
      sets_(sets),
      budget_(budget),
      mix_(seed),
      by_key_({&nodes, mix_}, nodes.max_nodes(), budget, TableMemory::kBlocks, nullptr),
      by_life_({&entries_, mix_}, budget.max() / 4 / sizeof(Entry), budget, TableMemory::kRest,
               nullptr) {}

uint32_t EngineNames::Find(LifeId life, uint64_t key) const {
  if (used_ > 0) {
    if (const uint32_t entry = FindEntry(life, key); entry != 0) {
      return IsTrue(entries_[entry]) ? entries_[entry].node : 0;
    }
  }
  return by_key_.Find(mix_(key, 0), [&](uint32_t node) { return IsKeyOf(key, life, node); });
}

EngineNames::Named EngineNames::Locate(LifeId life, uint64_t key) {
  if (used_ > 0) {
    if (const uint32_t node = Find(life, key); node != 0) return {.node = node};
    Forget(life, key);
  }
  const uint64_t hash = mix_(key, 0);
  const bool room = by_key_.Prepare(hash);
  const auto place = by_key_.Locate(hash, [&](uint32_t node) { return IsKeyOf(key, life, node); });
  return {.node = place.item, .place = place, .room = room};
}

bool EngineNames::Adopt(const Named& named, uint64_t key, uint32_t node) {
  if (nodes_.Key(node) != 0 || !named.room) return nodes_.Key(node) == key;
  nodes_.Key(node) = key;
  by_key_.Insert(named.place, mix_(key, 0), node);
  return true;
}

bool EngineNames::IsKeyOf(uint64_t key, LifeId life, uint32_t node) const {
  if (nodes_.Key(node) != key) return false;
  const uint32_t set = nodes_[node].set.load(std::memory_order_relaxed);
  return (sets_.TiersOf(set, life) & kReportedTiers) != 0;
}

bool EngineNames::Set(LifeId life, uint64_t key, uint32_t node) {
  if (nodes_.Key(node) == key) {
    Forget(life, key);
    return true;
  }
  if (nodes_.Key(node) != 0) return AddEntry(life, key, node);
  Forget(life, key);
  const uint64_t hash = mix_(key, 0);
  if (!by_key_.Prepare(hash)) return false;
  nodes_.Key(node) = key;
  by_key_.Insert(by_key_.Locate(hash, [](uint32_t) { return false; }), hash, node);
  return true;
}

void EngineNames::Forget(LifeId life, uint64_t key) {
  if (used_ == 0) return;
  if (const uint32_t entry = FindEntry(life, key); entry != 0) DropEntry(entry);
}

void EngineNames::ForgetNode(uint32_t node) {
  if (nodes_.Key(node) == 0) return;
  by_key_.Erase(mix_(nodes_.Key(node), 0), node);
  nodes_.Key(node) = 0;
}

void EngineNames::Sweep(uint32_t entry) {
  if (entries_[entry].used && !IsTrue(entries_[entry])) DropEntry(entry);
}

uint32_t EngineNames::CheckOf(uint32_t node) const {
  return static_cast<uint32_t>(mix_(nodes_[node].hash));
}

bool EngineNames::IsTrue(const Entry& entry) const {
  const uint32_t set = nodes_[entry.node].set.load(std::memory_order_relaxed);
  return set != 0 && CheckOf(entry.node) == entry.check &&
         (sets_.TiersOf(set, entry.life) & kReportedTiers) != 0;
}

uint32_t EngineNames::FindEntry(LifeId life, uint64_t key) const {
  return by_life_.Find(mix_(key, uint64_t{life} + 1), [&](uint32_t entry) {
    return entries_[entry].key == key && entries_[entry].life == life;
  });
}

bool EngineNames::AddEntry(LifeId life, uint64_t key, uint32_t node) {
  uint32_t entry = FindEntry(life, key);
  if (entry == 0) {
    const uint64_t hash = mix_(key, uint64_t{life} + 1);
    if ((free_ == 0 && !AddChunk()) || !by_life_.Prepare(hash)) return false;
    entry = std::exchange(free_, entries_[free_].next_free);
    ++used_;
    entries_[entry] = {.key = key, .life = life, .used = true};
    by_life_.Insert(by_life_.Locate(hash, [](uint32_t) { return false; }), hash, entry);
  }
  entries_[entry].node = node;
  entries_[entry].check = CheckOf(node);
  return true;
}

bool EngineNames::AddChunk() {
  if (limit_ + kChunkEntries > kMaxTableItems || !budget_.TakeForRest(sizeof(Chunk))) return false;
  entries_.chunks.push_back(std::make_unique<Chunk>());
  // Number 0 is none.
  for (uint32_t i = kChunkEntries; i-- > (limit_ == 0 ? 1 : 0);) {
    entries_[limit_ + i].next_free = free_;
    free_ = limit_ + i;
  }
  limit_ += kChunkEntries;
  return true;
}

void EngineNames::DropEntry(uint32_t entry) {
  Entry& e = entries_[entry];
  by_life_.Erase(mix_(e.key, uint64_t{e.life} + 1), entry);
  e.used = false;
  e.next_free = std::exchange(free_, entry);
  --used_;
}

}  // namespace ember::router
