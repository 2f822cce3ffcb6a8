#include "kvstore/engine/s3_fifo_policy.h"

#include <algorithm>

#include "proto/base/check.h"

namespace ember::kv {
namespace {

constexpr double kSmallShare = 0.1;
constexpr uint8_t kMaxUses = 3;  // two bits, as in the paper

}  // namespace

void S3FifoPolicy::Add(EvictionHook* hook) {
  EMBER_CHECK(!hook->tracked, "added twice");
  hook->tracked = true;
  if (hook->queue == kNone) {
    Push(hook, ghost_.Take(hook->name) ? kMain : kSmall);
  } else {
    hook->uses = std::min<uint8_t>(hook->uses + 1, kMaxUses);
    Push(hook, static_cast<Queue>(hook->queue));
  }
}

// Worth is when its turn comes, about: a main queue's entry waits for the whole queue, and once
// more for every use.
void S3FifoPolicy::Push(EvictionHook* hook, Queue queue) {
  hook->queue = queue;
  hook->last_use = static_cast<uint64_t>(++pushes_);
  QueueOf(hook).PushNewest(hook);
  const auto all = static_cast<int64_t>(small_.size() + main_.size());
  hook->worth = pushes_ + all * ((queue == kMain ? 1 : 0) + hook->uses);
}

void S3FifoPolicy::Remove(EvictionHook* hook) {
  EMBER_CHECK(hook->tracked, "not known to the policy");
  hook->tracked = false;
  QueueOf(hook).Remove(hook);
}

void S3FifoPolicy::Evict(EvictionHook* hook) {
  Remove(hook);
  if (hook->queue == kSmall) ghost_.Add(hook->name, (small_.size() + main_.size()) * 9 / 10);
}

void S3FifoPolicy::Touch(EvictionHook* hook) {
  if (hook->uses == kMaxUses) return;
  ++hook->uses;
  hook->worth += static_cast<int64_t>(small_.size() + main_.size());
}

bool S3FifoPolicy::SmallIsNext() const {
  if (small_.empty() || main_.empty()) return main_.empty();
  const auto all = static_cast<double>(small_.bytes() + main_.bytes());
  return static_cast<double>(small_.bytes()) >= kSmallShare * all;
}

void S3FifoPolicy::VisitVictims(const std::function<bool(EvictionHook*)>& visit) {
  // First what deserves another round leaves the ends of the queues.
  while (SmallIsNext() && !small_.empty() && small_.Oldest()->uses > 1) {
    EvictionHook* hook = small_.Oldest();
    small_.Remove(hook);
    hook->uses = 0;
    Push(hook, kMain);
  }
  if (!SmallIsNext()) {
    while (main_.Oldest()->uses > 0) {
      EvictionHook* hook = main_.Oldest();
      main_.Remove(hook);
      --hook->uses;
      Push(hook, kMain);
    }
  }
  const bool small_first = SmallIsNext();
  for (EvictionQueue* queue : {small_first ? &small_ : &main_, small_first ? &main_ : &small_}) {
    for (EvictionHook* hook = queue->Oldest(); hook != nullptr; hook = queue->NewerThan(hook)) {
      if (!visit(hook)) return;
    }
  }
}

}  // namespace ember::kv
