// HeldBlocks: every block that the index knows, with its holders; found by hash, or by what a
// holder calls it. Makes room when memory is out, and sweeps up after lives that have ended.
//
// A block stays while it has a holder, or a child that has one. What is evicted is a block without
// children that was not used for long: chains lose their ends first.
// Concurrency: what is const from any thread inside a stay; the rest from the writer.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <unordered_map>

#include "router/index/block_nodes.h"
#include "router/index/engine_names.h"
#include "router/index/holder_lives.h"
#include "router/index/holder_sets.h"
#include "router/index/memory_budget.h"
#include "router/index/reader_epochs.h"
#include "router/index/slot_table.h"

namespace ember::router {

class HeldBlocks {
 public:
  HeldBlocks(size_t max_bytes, uint64_t seed);
  HeldBlocks(const HeldBlocks&) = delete;
  HeldBlocks& operator=(const HeldBlocks&) = delete;

  // ---- Any thread
  ReaderEpochs::Stay Enter() const { return epochs_.Enter(); }
  // The block's node, 0: it is not there. `previous` is the node of the block before it, if there
  // is one: blocks stored together lie beside each other.
  uint32_t Find(const BlockHash& hash, uint32_t previous) const;
  // How many of the blocks that follow it in a chain lie beside the node and have these holders,
  // which the caller read of it. They count as used.
  size_t RunBeside(uint32_t node, uint32_t set, std::span<const BlockHash> following) const;
  // Two steps of bringing what Find will read of a block that lies elsewhere.
  void FetchLine(const BlockHash& hash) const { by_hash_.FetchLine(mix_(hash)); }
  void FetchItem(const BlockHash& hash) const { by_hash_.FetchItem(mix_(hash)); }
  uint32_t SetOf(uint32_t node) const { return nodes_[node].set.load(std::memory_order_acquire); }
  const BlockHash& HashOf(uint32_t node) const { return nodes_[node].hash; }
  void MarkUsed(uint32_t node) const;
  const HolderSets& sets() const { return sets_; }
  const HolderLives& lives() const { return lives_; }

  // ---- The writer
  // Before changes of about so many blocks: time goes on, and what ended lives left is swept up a
  // little further.
  void BeginWrite(size_t blocks);
  // The block's node, made if need be as the child of `previous`; 0: no memory. To be followed by
  // Add, before anything else.
  uint32_t FindOrMake(const BlockHash& hash, uint32_t previous);
  // The life has the block in these tiers. False: no memory, nothing changed.
  bool Add(uint32_t node, LifeId life, TierBits tiers);
  // The life has it there no longer. The node may be gone afterwards.
  void Drop(uint32_t node, LifeId life, TierBits tiers);

  // The block before it in its chain; 0: none is known.
  uint32_t ParentOf(uint32_t node) const { return nodes_.Parent(node); }
  bool HasChild(uint32_t node) const { return nodes_[node].children > 0; }

  LifeId BeginLife(HolderId holder, HolderKind kind);
  void EndLife(LifeId life);

  EngineNames& names() { return names_; }
  const EngineNames& names() const { return names_; }
  MemoryBudget& budget() { return budget_; }
  HolderLives& lives() { return lives_; }

  size_t held() const { return held_; }
  size_t bytes() const { return budget_.used(); }
  uint64_t evictions() const { return evictions_; }

 private:
  struct HashItems {
    const BlockNodes* nodes;
    SeededMix mix;
    uint64_t HashOf(uint32_t node) const { return mix((*nodes)[node].hash); }
    void Fetch(uint32_t node) const { __builtin_prefetch(&(*nodes)[node]); }
  };

  uint32_t Neighbour(uint32_t previous, const BlockHash& hash) const;
  static void MarkUsed(const BlockNode& node, uint16_t now);
  void Replace(BlockNode& node, uint32_t from, uint32_t to);
  void FreeIfUnused(uint32_t node);
  void AddChild(uint32_t node);
  void RemoveChild(uint32_t node);

  // Room for one more node, if it can be had without `keep`.
  bool MakeRoom(uint32_t keep);
  void Evict(size_t wanted, uint32_t keep);
  void EvictNode(uint32_t node);
  // The age beyond which blocks are evicted, so that it is that of `share` of them.
  void ChooseHorizon(double share);
  uint16_t AgeOf(const BlockNode& node) const;
  void Visit(size_t nodes);
  // `clean`: a set that was found to name no life that is swept, for the next call.
  void VisitNode(uint32_t node, uint32_t* clean);
  void Reclaim();

  MemoryBudget budget_;
  const SeededMix mix_;
  mutable ReaderEpochs epochs_;
  BlockNodes nodes_;
  HolderSets sets_;
  HolderLives lives_;
  SlotTable<HashItems> by_hash_;
  EngineNames names_;
  // Of nodes with kManyChildren.
  std::unordered_map<uint32_t, uint32_t> many_children_;
  size_t held_ = 0;
  uint64_t evictions_ = 0;

  std::atomic<uint16_t> now_{0};  // ticks
  size_t written_ = 0;            // blocks since the last tick
  bool full_ = false;             // memory has been out

  uint32_t hand_ = 1;          // where eviction goes on
  uint16_t horizon_ = 0;       // ticks of age
  size_t horizon_left_ = 0;    // evictions until it is chosen anew
  uint64_t sample_state_ = 0;  // of the positions that are looked at to choose it

  // A node, and an engine name, that upkeep looks at next, and how many are left of a sweep.
  struct Cursor {
    uint32_t at = 0;
    uint32_t left = 0;
  };
  bool sweeping_ = false;
  Cursor node_cursor_;
  Cursor name_cursor_;
};

}  // namespace ember::router
