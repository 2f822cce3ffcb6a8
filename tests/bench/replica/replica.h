// Replica: an Engine in real time, with what its agent tells routers: a process that can be killed
// and comes back empty.
//
// Concurrency: the loop's one thread, but for Feed and Hint, which any thread may call. Life: as
// long as the process.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/steady_timer.hpp>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "client/agent/agent_feed.h"
#include "client/http/loop.h"
#include "tests/bench/replica/engine.h"
#include "tests/bench/replica/held_slots.h"

namespace ember::bench {

class Replica {
 public:
  struct Counts {
    uint64_t requests = 0, prompt_tokens = 0, cached_tokens = 0, loaded_tokens = 0;
    uint64_t output_tokens = 0;
    double ttft_seconds = 0;
    uint64_t first_tokens = 0;
    uint64_t hints = 0;  // that began a load
  };

  Replica(http::HttpLoop& loop, size_t number, const sim::EngineShape& shape,
          sim::StoredBlocks* store);

  // Computes prompts and reports, for as long as the loop runs.
  void Start();

  // ---- The loop's thread
  // Waits until the prompt is computed. Nothing: the process died meanwhile.
  boost::asio::awaitable<std::optional<Engine::Work>> Compute(Engine::SharedPrompt prompt);
  // The prompt's answer is out.
  void Finish(const Prompt& prompt);
  // Cache, counts and line are lost, as if nothing had been.
  void Reset();
  // The process dies, and comes back.
  void Die();
  void Revive();
  bool alive() const { return alive_; }
  size_t number() const { return number_; }
  // Another one: what was computed in the last one is lost.
  uint64_t life() const { return life_; }
  size_t waiting() const { return waiters_.size(); }  // for their first token
  size_t running() const { return running_; }
  const Engine& engine() const { return engine_; }
  const Counts& counts() const { return counts_; }

  // ---- Any thread
  // What its agent says; null while the process is dead. Good for as long as it is held.
  std::shared_ptr<agent::AgentFeed> Feed() const;
  void Hint(Prompt prompt, uint64_t wanted);

 private:
  struct Waiter {
    boost::asio::steady_timer done;
    std::optional<Engine::Work> work;
  };

  boost::asio::awaitable<void> ComputeInTurn();
  boost::asio::awaitable<void> Report();
  void Tell(const Chain& added);
  void Forget();
  agent::FeedReport ReportNow() const;

  http::HttpLoop& loop_;
  const size_t number_;
  Engine engine_;
  HeldSlots held_;
  Counts counts_;
  std::map<Engine::Ticket, std::shared_ptr<Waiter>> waiters_;
  boost::asio::steady_timer idle_;  // of ComputeInTurn, until there may be something to do
  uint64_t pending_tokens_ = 0;     // of prompts that are not computed yet
  size_t running_ = 0;              // answers under way
  uint64_t life_ = 0;
  bool alive_ = true;
  mutable std::mutex mutex_;
  std::shared_ptr<agent::AgentFeed> feed_;  // under mutex_
};

}  // namespace ember::bench
