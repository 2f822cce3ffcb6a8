#include "kvstore/engine/lru_policy.h"

#include "proto/base/check.h"

namespace ember::kv {

void LruPolicy::Add(EvictionHook* hook) {
  EMBER_CHECK(!hook->tracked, "added twice");
  hook->tracked = true;
  hook->worth = ++uses_;
  queue_.PushNewest(hook);
}

void LruPolicy::Remove(EvictionHook* hook) {
  EMBER_CHECK(hook->tracked, "not known to the policy");
  hook->tracked = false;
  queue_.Remove(hook);
}

void LruPolicy::Touch(EvictionHook* hook) {
  Remove(hook);
  Add(hook);
}

void LruPolicy::VisitVictims(const std::function<bool(EvictionHook*)>& visit) {
  for (EvictionHook* hook = queue_.Oldest(); hook != nullptr; hook = queue_.NewerThan(hook)) {
    if (!visit(hook)) return;
  }
}

}  // namespace ember::kv
