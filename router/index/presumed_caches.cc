#include "router/index/presumed_caches.h"

#include <algorithm>
#include <bit>

#include "proto/base/check.h"

namespace ember::router {
namespace {

// Where the engine's own is unknown.
constexpr size_t kLargestPresumed = 1u << 14;
constexpr size_t kSmallestPresumed = 1u << 6;
// A capacity that was learned too small grows by this share of what is added.
constexpr size_t kPresumedGrowth = 32;
constexpr int kDroppedTogether = 64;

}  // namespace

PresumedCaches::PresumedCaches(PrefixIndex& index, uint64_t seed) : index_(index), mix_(seed) {
  EMBER_CHECK(index_.budget().TakeForTables(sizeof(*this)), "the least that an index may have");
}

std::vector<PresumedCaches::Use> PresumedCaches::Add(HolderId holder,
                                                     std::span<const BlockHash> chain,
                                                     size_t capacity, size_t known) {
  Cache& cache = caches_.at(holder);
  if (capacity != 0 || cache.capacity_known || cache.capacity == 0) {  // what was learned stays
    cache.capacity_known = capacity != 0;
    cache.capacity = static_cast<uint32_t>(
        cache.capacity_known ? std::min(capacity, kLargestPresumed) : kLargestPresumed);
  }
  if (++cache.now == 0) {  // the clock has gone round
    Clear(holder);
    return Add(holder, chain, capacity, 0);
  }
  chain = chain.first(std::min<size_t>(chain.size(), cache.capacity));
  std::vector<Use> before;
  size_t added = 0;
  // From the end to the start, so that a chain's start is always younger than its end.
  for (size_t i = chain.size(); i-- > 0;) {
    uint32_t node = Find(holder, chain[i]);
    const uint32_t used = node == 0 ? 0 : At(node).used;
    if (node != 0) {
      Unlink(cache, node);
    } else if (node = Make(holder, chain[i]); node != 0) {
      ++added;
      known = std::min(known, i);  // room may have been made where the index knew it
    }
    if (node != 0) PutFirst(cache, node);
    if (!before.empty() && before.back().used == used) {
      before.back().from = i;
    } else {
      before.push_back({i, used});
    }
  }
  if (!cache.capacity_known) {
    cache.capacity =
        static_cast<uint32_t>(std::min(kLargestPresumed, cache.capacity + added / kPresumedGrowth));
  }
  while (cache.count > cache.capacity) Drop(cache, cache.oldest);
  // Also what the index has lost for want of memory.
  for (size_t i = known; i < chain.size(); ++i) {
    if (Find(holder, chain[i]) != 0) index_.StoreBlock(holder, HolderTier::kDevice, chain[i]);
  }
  return before;
}

void PresumedCaches::Contradict(HolderId holder, std::span<const Use> before, size_t found) {
  Cache& cache = caches_.at(holder);
  const auto use = std::ranges::find_if(before, [&](const Use& u) { return u.from <= found; });
  const uint32_t used = use == before.end() ? 0 : use->used;
  if (used <= cache.forgotten) return;
  while (cache.oldest != 0 && At(cache.oldest).used <= used) Drop(cache, cache.oldest);
  if (!cache.capacity_known) {
    cache.capacity =
        static_cast<uint32_t>(std::clamp<size_t>(cache.count, kSmallestPresumed, kLargestPresumed));
  }
}

void PresumedCaches::TakeBack(HolderId holder, std::span<const BlockHash> chain,
                              std::span<const Use> before, uint32_t when) {
  size_t end = chain.size();
  for (const Use& use : before) {
    for (size_t i = end; use.used == 0 && i-- > use.from;) {
      const uint32_t node = Find(holder, chain[i]);
      // Others that were sent it since may have been computed.
      if (node != 0 && At(node).used == when) Drop(caches_.at(holder), node);
    }
    end = use.from;
  }
}

void PresumedCaches::Clear(HolderId holder) {
  Cache& cache = caches_.at(holder);
  while (cache.oldest != 0) Drop(cache, cache.oldest);
  Forget(holder);
}

void PresumedCaches::Forget(HolderId holder) {
  Cache& cache = caches_.at(holder);
  while (cache.oldest != 0) Free(cache, cache.oldest);
  cache = {.now = cache.now, .forgotten = cache.now};  // requests under way may still name times
}

uint32_t PresumedCaches::Find(HolderId holder, const BlockHash& hash) {
  if (buckets_.empty()) return 0;
  uint32_t node = BucketOf(holder, hash);
  while (node != 0 && (At(node).holder != holder || At(node).hash != hash)) node = At(node).next;
  return node;
}

uint32_t PresumedCaches::Make(HolderId holder, const BlockHash& hash) {
  if (free_ == 0 && !AddChunk()) MakeRoom();
  if (free_ == 0) return 0;
  const uint32_t node = free_;
  Node& n = At(node);
  free_ = n.next;
  uint32_t& bucket = BucketOf(holder, hash);
  n = {.hash = hash, .next = bucket, .holder = holder};
  bucket = node;
  return node;
}

bool PresumedCaches::AddChunk() {
  MemoryBudget& budget = index_.budget();
  if (buckets_.empty()) {
    const size_t buckets = std::bit_floor(budget.max_presumed() / sizeof(Node));
    if (!budget.TakeForPresumed(buckets * sizeof(buckets_[0]))) return false;
    buckets_.resize(buckets);
  }
  if (!budget.TakeForPresumed(sizeof(Chunk))) return false;
  chunks_.push_back(std::make_unique<Chunk>());
  const auto first = static_cast<uint32_t>((chunks_.size() - 1) * kChunkNodes);
  for (uint32_t i = kChunkNodes; i-- > (first == 0 ? 1 : 0);) {
    At(first + i).next = free_;
    free_ = first + i;
  }
  return true;
}

void PresumedCaches::MakeRoom() {
  Cache& largest = *std::ranges::max_element(caches_, {}, &Cache::count);
  for (int i = 0; i < kDroppedTogether && largest.oldest != 0; ++i) Drop(largest, largest.oldest);
}

void PresumedCaches::Unlink(Cache& cache, uint32_t node) {
  const Node& n = At(node);
  (n.newer == 0 ? cache.newest : At(n.newer).older) = n.older;
  (n.older == 0 ? cache.oldest : At(n.older).newer) = n.newer;
  --cache.count;
}

void PresumedCaches::PutFirst(Cache& cache, uint32_t node) {
  Node& n = At(node);
  n.used = cache.now;
  n.newer = 0;
  n.older = cache.newest;
  (cache.newest == 0 ? cache.oldest : At(cache.newest).newer) = node;
  cache.newest = node;
  ++cache.count;
}

void PresumedCaches::Free(Cache& cache, uint32_t node) {
  Unlink(cache, node);
  Node& n = At(node);
  uint32_t* link = &BucketOf(n.holder, n.hash);
  while (*link != node) link = &At(*link).next;
  *link = n.next;
  n.next = free_;
  free_ = node;
}

void PresumedCaches::Drop(Cache& cache, uint32_t node) {
  const Node& n = At(node);
  index_.RemoveBlock(n.holder, HolderTier::kDevice, n.hash);
  Free(cache, node);
}

}  // namespace ember::router
