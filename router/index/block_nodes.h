// BlockNodes: the memory of the index's blocks, numbered from 1, in chunks that never move. Blocks
// that are stored together get neighbouring numbers as far as possible, so that a chain is mostly
// read straight through memory.
//
// Concurrency: Take and GiveBack from the writer. Any thread may look at a node inside a stay of
// ReaderEpochs: where it sees a set, the hash is that block's, until it leaves.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "proto/model/block_hash.h"
#include "router/index/engine_key.h"
#include "router/index/memory_budget.h"
#include "router/index/retired_items.h"

namespace ember::router {

// What a walk along a chain reads of a block.
struct BlockNode {
  BlockHash hash;
  std::atomic<uint32_t> set{0};           // of holders; 0: no block
  mutable std::atomic<uint16_t> used{0};  // when, in ticks
  uint16_t children = 0;                  // blocks whose parent it is; kManyChildren: a table says
};
static_assert(sizeof(BlockNode) == 24);

inline constexpr uint16_t kManyChildren = 0xffff;

class BlockNodes {
 public:
  static constexpr uint32_t kChunkNodes = 512;

  explicit BlockNodes(size_t max_bytes);
  BlockNodes(const BlockNodes&) = delete;
  BlockNodes& operator=(const BlockNodes&) = delete;
  ~BlockNodes();

  BlockNode& operator[](uint32_t node) const { return ChunkOf(node).nodes[node % kChunkNodes]; }
  // What the engine that stored it first calls the block; 0: nobody named it. The writer's.
  uint64_t& Key(uint32_t node) const { return ChunkOf(node).keys[node % kChunkNodes]; }
  // The block before it in its chain; 0: none is known. The writer's.
  uint32_t& Parent(uint32_t node) const { return ChunkOf(node).parents[node % kChunkNodes]; }
  // Nodes after it that lie beside it in memory.
  static uint32_t LeftInChunk(uint32_t node) { return kChunkNodes - 1 - node % kChunkNodes; }
  // Numbers below it may be looked at.
  uint32_t limit() const { return limit_.load(std::memory_order_acquire); }
  // Allocated at the start.
  size_t bytes() const { return max_chunks_ * sizeof(chunks_[0]); }
  size_t max_nodes() const { return max_chunks_ * kChunkNodes; }

  bool has_free() const { return free_.first != 0; }
  uint32_t free_count() const { return free_.count; }
  // Memory for kChunkNodes more; false when the budget has none. `also`: as in TakeForBlocks.
  bool AddChunk(MemoryBudget& budget, size_t also);
  // A free node; there must be one.
  uint32_t Take();
  // Nobody can find the node any more, but readers may still look at it.
  void Retire(uint32_t node) { retired_.Add(*this, node); }
  void Reclaim(ReaderEpochs& epochs);
  uint32_t retired_count() const { return retired_.count(); }

  uint32_t& Link(uint32_t node) { return Parent(node); }

 private:
  struct alignas(64) Chunk {
    std::array<BlockNode, kChunkNodes> nodes;
    std::array<uint64_t, kChunkNodes> keys{};
    std::array<uint32_t, kChunkNodes> parents{};
  };
  Chunk& ChunkOf(uint32_t node) const {
    return *chunks_[node / kChunkNodes].load(std::memory_order_acquire);
  }

  const size_t max_chunks_;
  const std::unique_ptr<std::atomic<Chunk*>[]> chunks_;
  std::atomic<uint32_t> limit_{0};
  ItemList free_;
  RetiredItems<BlockNodes> retired_;
};

}  // namespace ember::router
