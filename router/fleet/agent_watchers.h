// AgentWatchers: an AgentWatcher for each replica with an agent, from its coming to its going.
//
// Concurrency: told of changes on the loop's thread; watchers of replicas that went are ended on a
// thread of its own, for ending one waits. Life: loop and listener must outlive it; destroy it from
// any thread but the loop's, when no more changes come.
#pragma once

#include <boost/asio/thread_pool.hpp>
#include <map>
#include <memory>

#include "router/fleet/agent_watcher.h"
#include "router/fleet/replica_listener.h"

namespace ember::router {

class AgentWatchers final : public ReplicaListener {
 public:
  AgentWatchers(http::HttpLoop& loop, AgentListener& listener) : loop_(loop), listener_(listener) {}
  ~AgentWatchers() override { ending_.join(); }

  void OnAdded(const Endpoint& endpoint) override;
  void OnRemoved(const Endpoint& endpoint) override;

 private:
  http::HttpLoop& loop_;
  AgentListener& listener_;
  std::map<ReplicaNumber, std::unique_ptr<AgentWatcher>> watchers_;
  boost::asio::thread_pool ending_{1};
};

}  // namespace ember::router
