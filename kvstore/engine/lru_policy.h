// LruPolicy: the least recently used segment goes first.
#pragma once

#include "kvstore/engine/eviction_queue.h"

namespace ember::kv {

class LruPolicy final : public EvictionPolicy {
 public:
  void Add(EvictionHook* hook) override;
  void Remove(EvictionHook* hook) override;
  void Evict(EvictionHook* hook) override { Remove(hook); }
  void Touch(EvictionHook* hook) override;
  void VisitVictims(const std::function<bool(EvictionHook*)>& visit) override;

 private:
  EvictionQueue queue_;
  int64_t uses_ = 0;  // worth is the number of the last use
};

}  // namespace ember::kv
