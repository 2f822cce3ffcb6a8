// EvictionPolicy: in which order segments leave when room is needed. One instance a shard.
//
// It knows only the segments that may be evicted now: those in use (pinned, leased) are taken out
// and added again when the last user is gone. It never owns anything, and no call allocates.
// Concurrency: the shard's thread only.
#pragma once

#include <boost/intrusive/set_hook.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

namespace ember::kv {

using EvictionLinks =
    boost::intrusive::set_base_hook<boost::intrusive::link_mode<boost::intrusive::normal_link>,
                                    boost::intrusive::optimize_size<true>>;

// A segment as policies see it, and their state within its entry.
struct EvictionHook : EvictionLinks {
  // Said by the engine, before the first Add; the same for the whole life.
  uint64_t name = 0;     // a hash of the key, the same when it is stored again
  uint64_t bytes = 0;    // of memory
  uint32_t tokens = 0;   // of the segment
  uint32_t context = 0;  // tokens of the chain before it

  // The policy's.
  EvictionHook* newer = nullptr;
  EvictionHook* older = nullptr;
  int64_t worth = 0;  // larger = rather kept; comparable among the segments of a policy
  uint64_t last_use = 0;
  float log_density = 0;
  uint8_t uses = 0;
  uint8_t queue = 0;
  bool tracked = false;
};

class EvictionPolicy {
 public:
  virtual ~EvictionPolicy() = default;

  // Evictable from now: newly stored, or no longer in use. Either counts as a use.
  virtual void Add(EvictionHook* hook) = 0;
  // No longer evictable: in use, or gone for a reason that says nothing of its use.
  virtual void Remove(EvictionHook* hook) = 0;
  // Gone to make room: Remove, and perhaps its name is remembered.
  virtual void Evict(EvictionHook* hook) = 0;
  // Used while evictable.
  virtual void Touch(EvictionHook* hook) = 0;
  // Calls `visit` with evictable segments, the first to go first, until it returns false. `visit`
  // must not change the policy.
  virtual void VisitVictims(const std::function<bool(EvictionHook*)>& visit) = 0;
};

// "lru", "s3fifo", "chain"; the default is the one that kvstore/README.md measured as best.
inline constexpr std::string_view kDefaultEviction = "chain";
std::vector<std::string_view> EvictionPolicyNames();
// Null for any other name. `memory_bytes` of the shard: what the policy remembers of segments that
// are gone is in proportion, below 0.1 % of it.
std::unique_ptr<EvictionPolicy> MakeEvictionPolicy(std::string_view name, uint64_t memory_bytes);

}  // namespace ember::kv
