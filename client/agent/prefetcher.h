// Prefetcher: receives a prompt's leading segments into the PrefetchCache while the prompt's
// request is still on its way, or waits for a slot. A few transfers run at a time, the others wait
// in a bounded line.
//
// Concurrency: the HTTP loop's thread; blocking work runs on the loader's workers. Life: everything
// given must outlive it; destroy it only after the loop has stopped.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "client/agent/agent_metrics.h"
#include "client/agent/identity.h"
#include "client/agent/prefetch_cache.h"
#include "client/agent/prefix_loader.h"
#include "client/http/loop.h"

namespace ember::agent {

// At once; what becomes of an accepted one is counted when it is over.
struct PrefetchAnswer {
  enum Kind { kAccepted, kAlreadyThere, kNoRoom, kNothing } kind = kNothing;
  std::string reason;  // for people
};

// What one prompt wants of the store, as far as nothing else is known of the request.
struct PrefetchWish {
  std::shared_ptr<const EngineIdentity> identity;
  std::shared_ptr<const PromptSegments> prompt;
  size_t segments = 0;  // from the start, at most as many as the prompt has
};

class Prefetcher {
 public:
  // A request that waits. While it exists, what it wants stays and its transfer may still begin.
  class Claim {
   private:
    friend class Prefetcher;
    std::vector<PrefetchCache::Segment> segments_;
  };

  Prefetcher(http::HttpLoop& loop, PrefixLoader& loader, PrefetchCache& cache,
             AgentMetrics& metrics)
      : loop_(loop), loader_(loader), cache_(cache), metrics_(metrics) {}

  // For a request that is not here yet: what it wants stays until the cache lets go of it.
  PrefetchAnswer Hint(PrefetchWish wish);
  // For a request that waits. Never null.
  std::shared_ptr<Claim> Start(PrefetchWish wish);
  // Nothing begins any more.
  void Stop() { stopped_ = true; }

 private:
  struct Job {
    PrefetchWish wish;
    bool hint = false;
    std::weak_ptr<Claim> claim;
    TimePoint give_up_at;
  };
  PrefetchAnswer Admit(Job job);
  void Pump();
  boost::asio::awaitable<void> Run(Job job);
  boost::asio::awaitable<PrefetchOutcome> Transfer(const Job& job);
  boost::asio::awaitable<size_t> Receive(const PrefetchWish& wish, std::span<const size_t> numbers,
                                         std::span<const PrefetchCache::Segment> segments);

  http::HttpLoop& loop_;
  PrefixLoader& loader_;
  PrefetchCache& cache_;
  AgentMetrics& metrics_;
  std::deque<Job> line_;
  size_t running_ = 0;
  bool stopped_ = false;
};

}  // namespace ember::agent
