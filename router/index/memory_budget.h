// MemoryBudget: what the index may allocate, and who may have how much of it: the blocks as much as
// there is; what is presumed of replicas that report nothing at most a quarter, and all else
// (holder sets, second names, reported chains) at most a quarter. For these the others leave a
// sixteenth and an eighth of the whole free. One thread.
#pragma once

#include <algorithm>
#include <cstddef>

namespace ember::router {

class MemoryBudget {
 public:
  explicit MemoryBudget(size_t max_bytes) : max_(max_bytes) {}

  // `also`: what their tables are going to need.
  bool TakeForBlocks(size_t bytes, size_t also) {
    if (used_ + bytes + also + free_for_rest() + free_for_presumed() > max_) return false;
    used_ += bytes;
    return true;
  }
  bool TakeForTables(size_t bytes) {
    if (used_ + bytes > max_) return false;
    used_ += bytes;
    return true;
  }
  void GiveBackTables(size_t bytes) { used_ -= bytes; }
  bool TakeForPresumed(size_t bytes) {
    if (used_ + bytes + free_for_rest() > max_ || presumed_ + bytes > max_presumed()) return false;
    used_ += bytes;
    presumed_ += bytes;
    return true;
  }
  bool TakeForRest(size_t bytes) {
    if (used_ + bytes + free_for_presumed() > max_ || rest_ + bytes > max_ / 4) return false;
    used_ += bytes;
    rest_ += bytes;
    return true;
  }
  void GiveBackRest(size_t bytes) {
    used_ -= bytes;
    rest_ -= bytes;
  }

  size_t max() const { return max_; }
  size_t max_presumed() const { return max_ / 4; }
  size_t used() const { return used_; }

 private:
  size_t free_for_rest() const { return max_ / 8 - std::min(max_ / 8, rest_); }
  size_t free_for_presumed() const { return max_ / 16 - std::min(max_ / 16, presumed_); }

  const size_t max_;
  size_t used_ = 0;
  size_t presumed_ = 0;
  size_t rest_ = 0;
};

}  // namespace ember::router
