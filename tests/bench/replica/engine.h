// Engine: a simulated inference engine whose line of prompts is computed one after the other, with
// a prefix cache and a channel to load prefixes from a store that other engines share.
//
// A load begins with a hint, so that it overlaps the waiting of its request, or else when the line
// has come to its request. Whoever waits for a load is passed by those who don't. Loads share one
// channel, one after the other. What is computed is in the store at once.
// Times in ms of any one clock; time comes in. One thread. The store must outlive it.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <unordered_map>

#include "tests/bench/fleet_sim/sim_replica.h"
#include "tests/bench/replica/prompt.h"

namespace ember::bench {

class Engine {
 public:
  using Ticket = uint64_t;
  using SharedPrompt = std::shared_ptr<const Prompt>;

  // `store` is not used when the shape's load rate is 0.
  Engine(const sim::EngineShape& shape, sim::StoredBlocks* store)
      : shape_(shape), store_(store), cache_(shape.cache_blocks) {}

  Ticket Arrive(SharedPrompt prompt, double now);
  // A request will come whose first `wanted` tokens the store is thought to have. False: there is
  // nothing to load.
  bool Hint(const Prompt& prompt, uint64_t wanted, double now);

  struct Work {
    Ticket ticket = 0;
    SharedPrompt prompt;
    uint64_t cached_tokens = 0;
    uint64_t loaded_tokens = 0;  // of those
    double end = 0;              // when it is computed
  };
  // The first of the line that needs not wait, as long as nothing else is computed. It is in the
  // cache from here on.
  std::optional<Work> Next(double now);
  // When Next should be asked again if nobody comes; infinity: never.
  double NextReady() const;
  // The whole chain is computed: it is in the cache, and in the store.
  void Keep(const Chain& chain);
  // Cache, line and loads are lost.
  void Clear();

  bool loads() const { return shape_.load_tokens_per_ms > 0; }
  const sim::EngineShape& shape() const { return shape_; }
  const sim::BlockCache& cache() const { return cache_; }
  size_t waiting() const { return line_.size(); }

 private:
  struct Waiting {
    Ticket ticket = 0;
    SharedPrompt prompt;
    double ready = 0;         // when it came, or its load is there
    bool considered = false;  // for a load
  };

  // Blocks that the cache or a load that has come by then has, from the start.
  size_t There(const Prompt& prompt, double now) const;
  // Loads what the store has between the cache's and `end_block`; returns when it is there, or 0
  // when there is nothing to load.
  double Load(const Prompt& prompt, size_t end_block, double now);
  Work Begin(const Waiting& first, double now);

  const sim::EngineShape shape_;
  sim::StoredBlocks* const store_;
  sim::BlockCache cache_;
  std::deque<Waiting> line_;
  std::unordered_map<uint64_t, double> arriving_;  // blocks that are loaded: when they are there
  double channel_free_ = 0;
  double free_ = 0;
  double loads_begun_ = 0;
  Ticket next_ = 1;
};

}  // namespace ember::bench
