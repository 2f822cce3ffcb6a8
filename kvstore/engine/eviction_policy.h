// EvictionPolicy: in which order segments leave when room is needed. One instance a shard.
//
// It knows only the segments that may be evicted now: those in use (pinned, leased) are taken out
// and added again when the last user is gone. It never owns anything and allocates nothing.
#pragma once

#include <cstdint>
#include <functional>

namespace ember::kv {

// The policy's state within each segment's entry.
struct EvictionHook {
  EvictionHook* newer = nullptr;
  EvictionHook* older = nullptr;
  uint64_t worth = 0;  // the policy's; larger = rather kept
  bool tracked = false;
};

class EvictionPolicy {
 public:
  virtual ~EvictionPolicy() = default;

  // Evictable from now: newly stored, or no longer in use. Either counts as a use.
  virtual void Add(EvictionHook* hook) = 0;
  // No longer evictable: in use, or gone.
  virtual void Remove(EvictionHook* hook) = 0;
  // Used while evictable.
  virtual void Touch(EvictionHook* hook) = 0;
  // Calls `visit` with the evictable segments, the first to go first, until it returns false. It
  // must not change the policy.
  virtual void VisitVictims(const std::function<bool(EvictionHook*)>& visit) const = 0;
};

}  // namespace ember::kv
