#include "router/index/presumed_cache.h"

#include <algorithm>

namespace ember::router {
namespace {

// Where the engine's own is unknown; also bounds the memory, about 100 B a block.
constexpr size_t kLargestPresumed = 1u << 14;
constexpr size_t kSmallestPresumed = 1u << 6;
// A capacity that was learned too small grows by this share of what is added.
constexpr size_t kPresumedGrowth = 32;

}  // namespace

void PresumedCache::SetCapacity(size_t capacity) {
  if (capacity == 0 && capacity_ != 0 && !capacity_known_) return;  // what was learned stays
  capacity_known_ = capacity != 0;
  capacity_ = capacity_known_ ? std::min(capacity, kLargestPresumed) : kLargestPresumed;
}

PresumedCache::Change PresumedCache::Add(std::span<const BlockHash> chain) {
  Change change;
  ++now_;
  chain = chain.first(std::min(chain.size(), capacity_));
  // From the end to the start, so that a chain's start is always younger than its end.
  for (size_t i = chain.size(); i-- > 0;) {
    const auto [at, inserted] = index_.try_emplace(chain[i]);
    const uint64_t before = inserted ? 0 : at->second->used;
    if (inserted) {
      nodes_.push_front({chain[i], now_});
      change.held.push_back(chain[i]);
    } else {
      nodes_.splice(nodes_.begin(), nodes_, at->second);
      at->second->used = now_;
    }
    at->second = nodes_.begin();
    if (!change.before.empty() && change.before.back().used == before) {
      change.before.back().from = i;
    } else {
      change.before.push_back({i, before});
    }
  }
  std::reverse(change.before.begin(), change.before.end());
  if (!capacity_known_) {
    capacity_ = std::min(kLargestPresumed, capacity_ + change.held.size() / kPresumedGrowth);
  }
  while (nodes_.size() > capacity_) DropOldest(&change.gone);
  return change;
}

std::vector<BlockHash> PresumedCache::Contradict(std::span<const Use> before, size_t found) {
  std::vector<BlockHash> gone;
  uint64_t used = 0;
  for (const Use& use : before) {
    if (use.from <= found) used = use.used;
  }
  while (!nodes_.empty() && nodes_.back().used <= used) DropOldest(&gone);
  if (!capacity_known_ && used != 0) {
    capacity_ = std::clamp(nodes_.size(), kSmallestPresumed, kLargestPresumed);
  }
  return gone;
}

std::vector<BlockHash> PresumedCache::TakeAll() {
  std::vector<BlockHash> gone;
  while (!nodes_.empty()) DropOldest(&gone);
  return gone;
}

void PresumedCache::DropOldest(std::vector<BlockHash>* gone) {
  gone->push_back(nodes_.back().hash);
  index_.erase(nodes_.back().hash);
  nodes_.pop_back();
}

}  // namespace ember::router
