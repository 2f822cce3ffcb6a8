// PresumedCaches: what replicas that report nothing are presumed to hold: the blocks of the prompts
// that were sent to each, as an engine keeps them that evicts the least recently used block first,
// a chain's end before its start. What is presumed is written into the index.
//
// A replica's capacity is the engine's own where that is known. Where it is not, replies teach it:
// a block that turned out to be evicted was as old as any that is left, so everything older is gone
// too. Memory is the index's budget's, at every moment: where it is out, the replica of which the
// most is presumed loses its oldest blocks.
// Concurrency: one thread (the index's writer). The index must outlive it.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "router/index/prefix_index.h"
#include "router/index/seeded_mix.h"

namespace ember::router {

class PresumedCaches {
 public:
  // When a chain's blocks were last used before now: from block `from` on at time `used`.
  struct Use {
    size_t from = 0;
    uint32_t used = 0;  // 0: never
  };

  PresumedCaches(PrefixIndex& index, uint64_t seed);
  PresumedCaches(const PresumedCaches&) = delete;
  PresumedCaches& operator=(const PresumedCaches&) = delete;

  // The holder was sent a prompt of this chain. `capacity`: of its engine in blocks; 0: unknown.
  // `known`: how many of the chain's first blocks the index knows there. Returns when they were
  // used before, in descending order of `from`.
  std::vector<Use> Add(HolderId holder, std::span<const BlockHash> chain, size_t capacity,
                       size_t known);
  // The engine had only the first `found` blocks of the chain that Add returned `before` for: what
  // is as old as the next one is gone as well.
  void Contradict(HolderId holder, std::span<const Use> before, size_t found);
  // The prompt of the Add numbered `when`, which returned `before`, was not computed: what it
  // alone was presumed for is presumed no longer.
  void TakeBack(HolderId holder, std::span<const BlockHash> chain, std::span<const Use> before,
                uint32_t when);
  // Nothing is presumed of it any more.
  void Clear(HolderId holder);
  // The same, of a holder that the index is made to forget.
  void Forget(HolderId holder);

  // The number of the last Add for it.
  uint32_t now(HolderId holder) const { return caches_.at(holder).now; }
  size_t blocks(HolderId holder) const { return caches_.at(holder).count; }
  size_t capacity(HolderId holder) const { return caches_.at(holder).capacity; }

 private:
  // Nodes are numbered from 1; 0 is none.
  struct Node {
    BlockHash hash;
    uint32_t used = 0;
    uint32_t newer = 0;
    uint32_t older = 0;
    uint32_t next = 0;  // in its bucket, or of the free
    HolderId holder = kNoHolder;
  };
  static constexpr uint32_t kChunkNodes = 256;
  using Chunk = std::array<Node, kChunkNodes>;
  struct Cache {
    uint32_t newest = 0;  // `used` descends from here
    uint32_t oldest = 0;
    uint32_t count = 0;
    uint32_t capacity : 31 = 0;
    uint32_t capacity_known : 1 = 0;
    uint32_t now = 0;        // number of the last Add
    uint32_t forgotten = 0;  // `now` when all was forgotten: times up to it say nothing
  };

  Node& At(uint32_t node) const { return (*chunks_[node / kChunkNodes])[node % kChunkNodes]; }
  uint32_t& BucketOf(HolderId holder, const BlockHash& hash) {
    return buckets_[mix_(mix_(hash), holder) & (buckets_.size() - 1)];
  }
  uint32_t Find(HolderId holder, const BlockHash& hash);
  // A node for the block, in no list yet; 0: no memory.
  uint32_t Make(HolderId holder, const BlockHash& hash);
  bool AddChunk();
  void MakeRoom();
  void Unlink(Cache& cache, uint32_t node);
  void PutFirst(Cache& cache, uint32_t node);
  void Free(Cache& cache, uint32_t node);
  void Drop(Cache& cache, uint32_t node);

  PrefixIndex& index_;
  const SeededMix mix_;
  std::array<Cache, kMaxHolders> caches_{};
  std::vector<uint32_t> buckets_;
  std::vector<std::unique_ptr<Chunk>> chunks_;
  uint32_t free_ = 0;
};

}  // namespace ember::router
