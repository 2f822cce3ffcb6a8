// ChainPolicy: keeps what is used often and lately, and of a chain its head longest.
//
// Each segment has a worth, fixed at its last use; the least goes first:
//
//   worth = t - 2 * (segments before it in its chain) + n * log2(frequency * density)
//
// t counts uses, n is how many segments there are. A request uses the segments of a chain from head
// to tail; the second term turns that order round, for a tail without its head is useless. A
// frequency (of the sketch, so it outlives the segment) that is twice as high is worth as much as
// being used later by n uses. Density is the cost of recomputing a byte, a*n per size, against the
// (geometric) mean.
// The share b*n*context of that cost is left out: it grows along the chain, so it would keep tails
// rather than heads. See the README for what each term was measured to bring.
//
// Memory: three words and the links of a tree in each segment's hook. Each call is O(log n), and
// the use of a chain from head to tail O(1) a segment: each is worth a little less than the one
// before.
#pragma once

#include <boost/intrusive/set.hpp>
#include <optional>

#include "kvstore/engine/eviction_policy.h"
#include "kvstore/engine/use_sketch.h"

namespace ember::kv {

class ChainPolicy final : public EvictionPolicy {
 public:
  explicit ChainPolicy(uint64_t memory_bytes) : sketch_(memory_bytes) {}

  void Add(EvictionHook* hook) override;
  void Remove(EvictionHook* hook) override;
  void Evict(EvictionHook* hook) override { Remove(hook); }
  void Touch(EvictionHook* hook) override;
  void VisitVictims(const std::function<bool(EvictionHook*)>& visit) override;

 private:
  struct LessWorth {
    bool operator()(const EvictionHook& a, const EvictionHook& b) const {
      return a.worth < b.worth;
    }
  };

  using Order = boost::intrusive::multiset<EvictionHook, boost::intrusive::compare<LessWorth>>;

  void Use(EvictionHook* hook);
  double Bonus(const EvictionHook& hook) const;

  Order order_;
  Order::iterator last_added_ = order_.end();
  UseSketch sketch_;
  uint64_t uses_ = 0;
  std::optional<double> mean_log_density_;  // log2 of tokens per byte
};

}  // namespace ember::kv
