#include "kvstore/engine/chain_policy.h"

#include <algorithm>
#include <cmath>

#include "proto/base/check.h"

namespace ember::kv {
namespace {

constexpr uint64_t kPeriod = 10;      // a frequency is of the last 10 uses per segment, about
constexpr uint64_t kCorrelated = 64;  // uses within 1/64 of the segments are parts of one use
constexpr double kMaxLogDensity = 2;  // whatever a writer says of its tokens
constexpr double kMeanMemory = 1.0 / 256;

}  // namespace

void ChainPolicy::Add(EvictionHook* hook) {
  EMBER_CHECK(!hook->tracked, "added twice");
  hook->tracked = true;
  Use(hook);
  order_.insert(*hook);
}

void ChainPolicy::Remove(EvictionHook* hook) {
  EMBER_CHECK(hook->tracked, "not known to the policy");
  hook->tracked = false;
  order_.erase(order_.iterator_to(*hook));
}

void ChainPolicy::Touch(EvictionHook* hook) {
  Remove(hook);
  Add(hook);
}

void ChainPolicy::Use(EvictionHook* hook) {
  const uint64_t segments = order_.size() + 1;
  ++uses_;
  const bool counts = hook->last_use == 0 || uses_ - hook->last_use > segments / kCorrelated;
  if (counts) {
    hook->last_use = uses_;
    hook->uses = sketch_.Count(hook->name, kPeriod * segments);
    const double density = static_cast<double>(hook->tokens) / std::max<uint64_t>(hook->bytes, 1);
    mean_density_ += (density - mean_density_) * (mean_density_ == 0 ? 1 : kMeanMemory);
  }
  const double behind = hook->tokens == 0 ? 0 : static_cast<double>(hook->context) / hook->tokens;
  const double bonus = std::log2(std::max<uint8_t>(hook->uses, 1)) + LogDensity(*hook);
  hook->worth = std::llround(static_cast<double>(uses_) - 2 * behind + segments * bonus);
}

double ChainPolicy::LogDensity(const EvictionHook& hook) const {
  if (hook.tokens == 0 || hook.bytes == 0 || mean_density_ <= 0) return 0;
  const double density = static_cast<double>(hook.tokens) / static_cast<double>(hook.bytes);
  return std::clamp(std::log2(density / mean_density_), -kMaxLogDensity, kMaxLogDensity);
}

void ChainPolicy::VisitVictims(const std::function<bool(EvictionHook*)>& visit) {
  for (EvictionHook& hook : order_) {
    if (!visit(&hook)) return;
  }
}

}  // namespace ember::kv
