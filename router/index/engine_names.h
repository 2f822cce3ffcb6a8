// EngineNames: which block an engine means by its key. Engines of one kind call a block alike, so
// the first key that a block is told is kept with it and serves every holder of it; a holder whose
// engine has another key for it (another hash or seed) gets an entry of its own here.
//
// Keys are not zero. The key of a holder counts only while the holder has the block. Concurrency:
// the writer's thread.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "router/index/block_nodes.h"
#include "router/index/holder_sets.h"
#include "router/index/slot_table.h"

namespace ember::router {

class EngineNames {
 public:
  EngineNames(BlockNodes& nodes, const HolderSets& sets, MemoryBudget& budget, uint64_t seed);

  // The node that the life has and calls so; 0: none.
  uint32_t Find(LifeId life, uint64_t key) const;
  // The same, and the place for a node that Adopt gives this key.
  struct Named;
  Named Locate(LifeId life, uint64_t key);
  // The key becomes the node's first, if it has none and memory allows; nothing else of this class
  // was called since Locate found no node.
  bool Adopt(const Named& named, uint64_t key, uint32_t node);
  // The life, which has the node and has no other of that key, calls it so from now on. False: no
  // memory.
  bool Set(LifeId life, uint64_t key, uint32_t node);
  // The life has no block of that key any more.
  void Forget(LifeId life, uint64_t key);
  // The node is no block any more.
  void ForgetNode(uint32_t node);

  // Own entries, numbered from 1, that the sweep has to look at.
  uint32_t limit() const { return limit_; }
  // Drops the entry if its block is gone or its life holds it no more.
  void Sweep(uint32_t entry);

  void FetchLine(uint64_t key) const { by_key_.FetchLine(mix_(key, 0)); }
  void FetchItem(uint64_t key) const { by_key_.FetchItem(mix_(key, 0)); }
  // Allocated at the start; and the table of blocks' first keys.
  size_t bytes() const { return by_key_.bytes() + by_life_.bytes(); }
  size_t table_bytes() const { return by_key_.part_bytes(); }

 private:
  struct Entry {
    uint64_t key = 0;
    uint32_t node = 0;
    uint32_t check = 0;  // of the block's hash: the node's number may be another block's by now
    uint32_t next_free = 0;
    LifeId life = 0;
    bool used = false;
  };
  static constexpr uint32_t kChunkEntries = 256;
  using Chunk = std::array<Entry, kChunkEntries>;
  struct Entries {
    std::vector<std::unique_ptr<Chunk>> chunks;
    Entry& operator[](uint32_t entry) const {
      return (*chunks[entry / kChunkEntries])[entry % kChunkEntries];
    }
  };
  struct KeyItems {
    const BlockNodes* nodes;
    SeededMix mix;
    uint64_t HashOf(uint32_t node) const { return mix(nodes->Key(node), 0); }
    void Fetch(uint32_t node) const { __builtin_prefetch(&nodes->Key(node)); }
  };
  struct LifeItems {
    const Entries* entries;
    SeededMix mix;
    uint64_t HashOf(uint32_t entry) const {
      return mix((*entries)[entry].key, uint64_t{(*entries)[entry].life} + 1);
    }
    void Fetch(uint32_t entry) const { __builtin_prefetch(&(*entries)[entry]); }
  };

  uint32_t CheckOf(uint32_t node) const;
  bool IsKeyOf(uint64_t key, LifeId life, uint32_t node) const;
  bool IsTrue(const Entry& entry) const;
  uint32_t FindEntry(LifeId life, uint64_t key) const;
  bool AddChunk();
  bool AddEntry(LifeId life, uint64_t key, uint32_t node);
  void DropEntry(uint32_t entry);

  BlockNodes& nodes_;
  const HolderSets& sets_;
  MemoryBudget& budget_;
  const SeededMix mix_;
  Entries entries_;
  uint32_t limit_ = 0;
  uint32_t free_ = 0;
  uint32_t used_ = 0;
  SlotTable<KeyItems> by_key_;
  SlotTable<LifeItems> by_life_;
};

struct EngineNames::Named {
  uint32_t node = 0;
  SlotTable<KeyItems>::Place place;
  bool room = false;  // for another node of that key
};

}  // namespace ember::router
