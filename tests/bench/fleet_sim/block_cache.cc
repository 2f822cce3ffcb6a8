#include "tests/bench/fleet_sim/block_cache.h"

namespace ember::sim {

size_t BlockCache::Match(std::span<const uint64_t> chain) const {
  size_t n = 0;
  while (n < chain.size() && entries_.contains(chain[n])) ++n;
  return n;
}

void BlockCache::Insert(std::span<const uint64_t> chain) {
  for (size_t i = chain.size(); i-- > 0;) {
    const auto [it, is_new] = entries_.try_emplace(chain[i]);
    if (is_new) {
      use_.push_front(chain[i]);
      it->second = use_.begin();
    } else {
      use_.splice(use_.begin(), use_, it->second);
    }
  }
  while (entries_.size() > capacity_) {
    entries_.erase(use_.back());
    use_.pop_back();
  }
}

void BlockCache::Clear() {
  entries_.clear();
  use_.clear();
}

}  // namespace ember::sim
