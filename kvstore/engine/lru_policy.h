// LruPolicy: the least recently used segment goes first.
#pragma once

#include "kvstore/engine/eviction_policy.h"

namespace ember::kv {

class LruPolicy final : public EvictionPolicy {
 public:
  LruPolicy();

  void Add(EvictionHook* hook) override;
  void Remove(EvictionHook* hook) override;
  void Touch(EvictionHook* hook) override;
  void VisitVictims(const std::function<bool(EvictionHook*)>& visit) const override;

 private:
  EvictionHook ends_;  // newer = the oldest, older = the newest: a ring through this sentinel
  uint64_t uses_ = 0;  // worth is the number of the last use
};

}  // namespace ember::kv
