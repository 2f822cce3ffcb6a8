#include "kvstore/engine/lru_policy.h"

#include "proto/base/check.h"

namespace ember::kv {

LruPolicy::LruPolicy() { ends_.newer = ends_.older = &ends_; }

void LruPolicy::Add(EvictionHook* hook) {
  EMBER_CHECK(!hook->tracked, "added twice");
  hook->tracked = true;
  hook->worth = ++uses_;
  hook->older = ends_.older;
  hook->newer = &ends_;
  hook->older->newer = hook;
  ends_.older = hook;
}

void LruPolicy::Remove(EvictionHook* hook) {
  EMBER_CHECK(hook->tracked, "not known to the policy");
  hook->tracked = false;
  hook->older->newer = hook->newer;
  hook->newer->older = hook->older;
}

void LruPolicy::Touch(EvictionHook* hook) {
  Remove(hook);
  Add(hook);
}

void LruPolicy::VisitVictims(const std::function<bool(EvictionHook*)>& visit) const {
  for (EvictionHook* hook = ends_.newer; hook != &ends_; hook = hook->newer) {
    if (!visit(hook)) return;
  }
}

}  // namespace ember::kv
