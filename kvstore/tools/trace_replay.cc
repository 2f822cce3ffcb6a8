#include "kvstore/tools/trace_replay.h"

#include <algorithm>
#include <limits>
#include <set>

#include "kvstore/engine/eviction_policy.h"
#include "proto/base/check.h"

namespace ember::kv {
namespace {

constexpr uint64_t kBlockBytes = 512 << 10;
constexpr uint32_t kTokensPerBlock = 512;  // as in Mooncake's traces

// SplitMix64's finisher: names look like hashes.
uint64_t NameOf(uint64_t block) {
  uint64_t z = (block + 1) * 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

class Store {
 public:
  Store(const RequestTrace& trace, std::string_view policy, uint32_t capacity)
      : capacity_(capacity),
        blocks_(trace.distinct_blocks),
        policy_(MakeEvictionPolicy(policy, capacity * kBlockBytes)) {
    EMBER_CHECK(policy_ != nullptr && capacity > 0, "a known policy, and room");
  }

  size_t PrefixOf(const std::vector<uint32_t>& request) const {
    auto hole = std::ranges::find_if(request, [&](uint32_t b) { return !blocks_[b].tracked; });
    return static_cast<size_t>(hole - request.begin());
  }

  void Use(const std::vector<uint32_t>& request) {
    for (size_t i = 0; i < request.size(); ++i) {
      EvictionHook* block = &blocks_[request[i]];
      if (block->tracked) {
        policy_->Touch(block);
        continue;
      }
      if (stored_ == capacity_) EvictOne();
      *block = EvictionHook();
      block->name = NameOf(request[i]);
      block->bytes = kBlockBytes;
      block->tokens = kTokensPerBlock;
      block->context = static_cast<uint32_t>(i * kTokensPerBlock);
      policy_->Add(block);
      ++stored_;
    }
  }

 private:
  void EvictOne() {
    EvictionHook* victim = nullptr;
    policy_->VisitVictims([&](EvictionHook* hook) {
      victim = hook;
      return false;
    });
    policy_->Evict(victim);
    --stored_;
  }

  const uint32_t capacity_;
  uint32_t stored_ = 0;
  std::vector<EvictionHook> blocks_;
  const std::unique_ptr<EvictionPolicy> policy_;
};

}  // namespace

double ReplayHitRatio(const RequestTrace& trace, std::string_view policy, uint32_t capacity) {
  Store store(trace, policy, capacity);
  uint64_t hits = 0;
  for (const std::vector<uint32_t>& request : trace.requests) {
    hits += store.PrefixOf(request);
    store.Use(request);
  }
  return static_cast<double>(hits) / static_cast<double>(trace.lookups);
}

double BeladyHitRatio(const RequestTrace& trace, uint32_t capacity) {
  constexpr uint64_t kNever = std::numeric_limits<uint64_t>::max();
  std::vector<uint32_t> sequence;
  for (const auto& request : trace.requests) {
    sequence.insert(sequence.end(), request.begin(), request.end());
  }
  std::vector<uint64_t> next(sequence.size());
  std::vector<uint64_t> coming(trace.distinct_blocks, kNever);
  for (size_t i = sequence.size(); i-- > 0;) {
    next[i] = coming[sequence[i]];
    coming[sequence[i]] = i;
  }
  std::set<uint64_t> kept;  // by the time of their next use, which is unique
  uint64_t hits = 0;
  for (uint64_t i = 0; i < sequence.size(); ++i) {
    hits += kept.erase(i);
    if (next[i] == kNever) continue;
    kept.insert(next[i]);
    if (kept.size() > capacity) kept.erase(std::prev(kept.end()));
  }
  return static_cast<double>(hits) / static_cast<double>(sequence.size());
}

}  // namespace ember::kv
