#include "router/index/block_nodes.h"

#include <algorithm>

#include "proto/base/check.h"
#include "router/index/slot_table.h"

namespace ember::router {

BlockNodes::BlockNodes(size_t max_bytes)
    : max_chunks_(std::min<size_t>(max_bytes / sizeof(Chunk) + 1, kMaxTableItems / kChunkNodes)),
      chunks_(std::make_unique<std::atomic<Chunk*>[]>(max_chunks_)) {}

BlockNodes::~BlockNodes() {
  for (size_t i = 0; i < max_chunks_; ++i) delete chunks_[i].load();
}

bool BlockNodes::AddChunk(MemoryBudget& budget, size_t also) {
  const uint32_t first = limit_.load(std::memory_order_relaxed);
  const size_t chunk = first / kChunkNodes;
  if (chunk == max_chunks_ || !budget.TakeForBlocks(sizeof(Chunk), also)) return false;
  chunks_[chunk].store(new Chunk(), std::memory_order_release);
  limit_.store(first + kChunkNodes, std::memory_order_release);
  // The lowest is taken first. Number 0 is none.
  for (uint32_t i = kChunkNodes; i-- > (first == 0 ? 1 : 0);) {
    Link(first + i) = free_.first;
    free_.first = first + i;
    if (free_.last == 0) free_.last = first + i;
    ++free_.count;
  }
  return true;
}

uint32_t BlockNodes::Take() {
  EMBER_CHECK(free_.first != 0, "the caller made room");
  const uint32_t node = free_.first;
  free_.first = Link(node);
  if (--free_.count == 0) free_.last = 0;
  return node;
}

void BlockNodes::Reclaim(ReaderEpochs& epochs) {
  const ItemList items = retired_.Take(epochs);
  if (items.count == 0) return;
  Link(items.last) = free_.first;
  if (free_.last == 0) free_.last = items.last;
  free_ = {items.first, free_.last, free_.count + items.count};
}

}  // namespace ember::router
