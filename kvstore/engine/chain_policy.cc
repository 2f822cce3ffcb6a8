#include "kvstore/engine/chain_policy.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "proto/base/check.h"

namespace ember::kv {
namespace {

constexpr uint64_t kPeriod = 10;      // a frequency is of the last 10 uses per segment, about
constexpr uint64_t kCorrelated = 64;  // uses within 1/64 of the segments are parts of one use
constexpr double kMaxLogDensity = 2;  // whatever a writer says of its tokens
constexpr double kMeanMemory = 1.0 / 256;

float LogDensityOf(const EvictionHook& hook) {
  return std::log2(std::max<float>(hook.tokens, 1) / std::max<float>(hook.bytes, 1));
}

const std::array<double, UseSketch::kMax + 1> kLog2 = [] {
  std::array<double, UseSketch::kMax + 1> out{};
  for (size_t i = 2; i < out.size(); ++i) out[i] = std::log2(i);
  return out;
}();

}  // namespace

void ChainPolicy::Add(EvictionHook* hook) {
  EMBER_CHECK(!hook->tracked, "added twice");
  hook->tracked = true;
  Use(hook);
  last_added_ = order_.insert(last_added_, *hook);
}

void ChainPolicy::Remove(EvictionHook* hook) {
  EMBER_CHECK(hook->tracked, "not known to the policy");
  hook->tracked = false;
  const Order::iterator place = order_.iterator_to(*hook);
  if (place == last_added_) last_added_ = std::next(place);
  order_.erase(place);
}

void ChainPolicy::Touch(EvictionHook* hook) {
  Remove(hook);
  Add(hook);
}

void ChainPolicy::Use(EvictionHook* hook) {
  const uint64_t segments = order_.size() + 1;
  ++uses_;
  if (hook->last_use == 0) hook->log_density = LogDensityOf(*hook);
  if (hook->last_use == 0 || uses_ - hook->last_use > segments / kCorrelated) {
    hook->last_use = uses_;
    hook->uses = sketch_.Count(hook->name, kPeriod * segments);
    const double before = mean_log_density_.value_or(hook->log_density);
    mean_log_density_ = before + (hook->log_density - before) * kMeanMemory;
  }
  const double behind = hook->tokens == 0 ? 0 : static_cast<double>(hook->context) / hook->tokens;
  const double worth =
      static_cast<double>(uses_) - 2 * behind + static_cast<double>(segments) * Bonus(*hook);
  hook->worth = static_cast<int64_t>(worth);
}

double ChainPolicy::Bonus(const EvictionHook& hook) const {
  const double above = hook.log_density - mean_log_density_.value_or(hook.log_density);
  return kLog2[hook.uses] + std::clamp(above, -kMaxLogDensity, kMaxLogDensity);
}

void ChainPolicy::VisitVictims(const std::function<bool(EvictionHook*)>& visit) {
  for (EvictionHook& hook : order_) {
    if (!visit(&hook)) return;
  }
}

}  // namespace ember::kv
