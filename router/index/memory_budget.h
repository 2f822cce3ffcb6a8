// MemoryBudget: what the index may allocate, and who may have how much of it: the blocks as much as
// there is, all else (holder sets, second names, reported chains) at most a quarter, of which the
// blocks leave an eighth of the whole free for it. One thread.
#pragma once

#include <algorithm>
#include <cstddef>

namespace ember::router {

class MemoryBudget {
 public:
  explicit MemoryBudget(size_t max_bytes) : max_(max_bytes) {}

  // `also`: what their tables are going to need.
  bool TakeForBlocks(size_t bytes, size_t also) {
    const size_t kept_free = max_ / 8 - std::min(max_ / 8, rest_);
    if (used_ + bytes + also + kept_free > max_) return false;
    used_ += bytes;
    return true;
  }
  bool TakeForTables(size_t bytes) {
    if (used_ + bytes > max_) return false;
    used_ += bytes;
    return true;
  }
  void GiveBackTables(size_t bytes) { used_ -= bytes; }
  bool TakeForRest(size_t bytes) {
    if (used_ + bytes > max_ || rest_ + bytes > max_ / 4) return false;
    used_ += bytes;
    rest_ += bytes;
    return true;
  }
  void GiveBackRest(size_t bytes) {
    used_ -= bytes;
    rest_ -= bytes;
  }

  size_t max() const { return max_; }
  size_t used() const { return used_; }

 private:
  const size_t max_;
  size_t used_ = 0;
  size_t rest_ = 0;
};

}  // namespace ember::router
