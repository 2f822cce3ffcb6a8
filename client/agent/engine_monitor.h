// EngineMonitor: knows whether the engine is there, and under which identity its KV may be shared.
//
// It asks for the engine's health every 200 ms. Whenever the engine (re)appears it settles the
// identity anew: what the engine says of itself, the model file's digest (read again only if the
// file changed) and one slot that the engine saves for us, which proves that the slot folder, the
// file format and the KV types are what we think. If anything there is unexpected, the engine is
// served without a cache and one line says why.
//
// Concurrency: the HTTP loop's thread. Life: everything given must outlive it; destroy it only
// after the loop has stopped.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/thread_pool.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "client/agent/agent_metrics.h"
#include "client/agent/engine_client.h"
#include "client/agent/identity.h"
#include "client/agent/slot_folder.h"
#include "client/agent/slot_table.h"
#include "client/http/cancellation.h"
#include "client/http/loop.h"

namespace ember::agent {

class EngineMonitor {
 public:
  struct Options {
    std::string model_file;
    IdentityOptions identity;
    uint32_t slots = 0;  // use that many of the engine's slots; 0: all it has
  };
  // `on_change`: healthy() or identity() may have changed.
  EngineMonitor(Options options, EngineClient& engine, SlotTable& slots, const SlotFolder& folder,
                AgentMetrics& metrics, std::function<void()> on_change);

  // Runs until Stop.
  boost::asio::awaitable<void> Run();
  void Stop() { stop_.Cancel(); }

  bool healthy() const { return healthy_; }
  // Healthy, and it is settled whether there is a cache.
  bool ready() const { return healthy_ && !settling_; }
  // Null: the cache is off, for the reason in cache_problem().
  std::shared_ptr<const EngineIdentity> identity() const { return identity_; }
  const std::string& cache_problem() const { return problem_; }

  // Somebody found the engine gone: beliefs are dropped now and the identity is settled again.
  void NoteEngineGone(std::string_view how);
  // Somebody changed something in the engine that we can't follow: the same, without an alarm.
  void NoteEngineChanged();

 private:
  boost::asio::awaitable<void> Settle();
  boost::asio::awaitable<Result<EngineIdentity>> FindIdentity(const EngineProps& props);
  boost::asio::awaitable<Result<SlotShape>> ProbeShape();
  boost::asio::awaitable<Status> ReadModel();
  void SetIdentity(std::shared_ptr<const EngineIdentity> identity, std::string problem);

  const Options options_;
  EngineClient& engine_;
  SlotTable& slots_;
  const SlotFolder& folder_;
  AgentMetrics& metrics_;
  const std::function<void()> on_change_;

  http::Cancellation stop_;
  bool healthy_ = false;
  bool said_waiting_ = false;
  bool settling_ = true;
  bool settled_ = false;  // since the engine was last seen to come or change
  TimePoint settle_after_;
  std::optional<ModelFile> model_;
  std::shared_ptr<const EngineIdentity> identity_;
  std::string problem_ = "the engine is not there yet";
};

}  // namespace ember::agent
