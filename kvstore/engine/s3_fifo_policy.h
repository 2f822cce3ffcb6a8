// S3FifoPolicy: three first-in-first-out queues (Yang et al., "FIFO queues are all you need for
// cache eviction", SOSP 2023), sizes counted in bytes.
//
// New segments enter a small queue (10 % of the bytes). At its end those used again move to the
// main queue; the others go, and the ghost remembers their names (as many
// as 90 % of the segments), by which they enter the main
// queue when they come back. At the end of the main queue the used ones get another round.
// A segment that was pinned comes back at the young end of its queue: pinned ones are in none.
#pragma once

#include "kvstore/engine/eviction_queue.h"
#include "kvstore/engine/ghost_names.h"

namespace ember::kv {

class S3FifoPolicy final : public EvictionPolicy {
 public:
  explicit S3FifoPolicy(uint64_t memory_bytes) : ghost_(memory_bytes) {}

  void Add(EvictionHook* hook) override;
  void Remove(EvictionHook* hook) override;
  void Evict(EvictionHook* hook) override;
  void Touch(EvictionHook* hook) override;
  void VisitVictims(const std::function<bool(EvictionHook*)>& visit) override;

 private:
  enum Queue : uint8_t { kNone, kSmall, kMain };

  EvictionQueue& QueueOf(const EvictionHook* hook) { return hook->queue == kMain ? main_ : small_; }
  void Push(EvictionHook* hook, Queue queue);
  bool SmallIsNext() const;

  EvictionQueue small_;
  EvictionQueue main_;
  GhostNames ghost_;
  int64_t pushes_ = 0;
};

}  // namespace ember::kv
