// EvictionQueue: the evictable segments in the order in which they came, through their own links.
// Every operation is O(1). Concurrency: the shard's thread only.
#pragma once

#include "kvstore/engine/eviction_policy.h"

namespace ember::kv {

class EvictionQueue {
 public:
  EvictionQueue() { ends_.newer = ends_.older = &ends_; }
  EvictionQueue(const EvictionQueue&) = delete;

  void PushNewest(EvictionHook* hook) {
    hook->older = ends_.older;
    hook->newer = &ends_;
    hook->older->newer = hook;
    ends_.older = hook;
    bytes_ += hook->bytes;
    ++size_;
  }
  void Remove(EvictionHook* hook) {
    hook->older->newer = hook->newer;
    hook->newer->older = hook->older;
    bytes_ -= hook->bytes;
    --size_;
  }
  // Null at the end.
  EvictionHook* Oldest() const { return NewerThan(&ends_); }
  EvictionHook* NewerThan(const EvictionHook* hook) const {
    return hook->newer == &ends_ ? nullptr : hook->newer;
  }

  bool empty() const { return size_ == 0; }
  size_t size() const { return size_; }
  uint64_t bytes() const { return bytes_; }

 private:
  EvictionHook ends_;  // newer = the oldest, older = the newest: a ring through this sentinel
  size_t size_ = 0;
  uint64_t bytes_ = 0;
};

}  // namespace ember::kv
