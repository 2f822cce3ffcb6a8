// Membership: the cluster as this client knows it: the newest view, and the NodePeers of each
// member.
//
// Operation: the seeds are asked in parallel, again and again at short intervals, until one gives a
// view; so a store that starts late is joined without being called. Later views come with the hello
// of every new connection: a greater number wins, and of equal numbers (static lists) the last
// heard. Concurrency: the loop's thread only.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <vector>

#include "client/cluster/node_peers.h"
#include "client/cluster/view.h"
#include "client/io/gate.h"
#include "client/store_client/store_client.h"

namespace ember {

// One view and its nodes, in the members' order. Shared by the calls that began under it.
struct Cluster {
  cluster::View view;
  std::vector<std::shared_ptr<cluster::NodePeers>> nodes;
};

class Membership {
 public:
  // `options` must outlive it. `on_change` runs after each new view.
  Membership(io::Loop& loop, const StoreClientOptions& options, std::function<void()> on_change);

  // Begins to look for a view.
  void Start();
  // The newest view; waits for a try that is under way, but starts none. kUnavailable with the
  // seeds' errors when there is none.
  io::Task<Result<std::shared_ptr<const Cluster>>> Get(TimePoint deadline);
  // Closes every node, and waits for what runs. Awaited once.
  io::Task<void> Close();

  struct SeedState {
    io::Endpoint endpoint;
    Status status;
  };
  const std::vector<SeedState>& seeds() const { return seeds_; }

 private:
  struct Waiter;

  io::Task<void> Discover();
  io::Task<void> AskSeed(SeedState* seed);
  Status Adopt(const wire::HelloReply& hello, const io::Endpoint& from);
  std::shared_ptr<cluster::NodePeers> NodeOf(const wire::Member& member);
  void Retire(const Cluster& old);
  void WakeWaiters();
  Status WhyNone() const;

  io::Loop& loop_;
  const StoreClientOptions& options_;
  const std::function<void()> on_change_;
  std::vector<SeedState> seeds_;
  std::shared_ptr<const Cluster> cluster_;
  std::list<Waiter*> waiters_;
  bool asking_ = false;
  bool closed_ = false;
  io::Gate gate_;
};

}  // namespace ember
