// EnginePoller: asks each replica without an agent for its /metrics, so that its queue is known
// whoever fills it: other routers, or clients that come another way. An engine that serves no
// figures we know is asked seldom.
//
// Concurrency: the router's loop thread. `replicas` and `pool` must outlive the loop's threads.
#pragma once

#include <map>
#include <memory>

#include "client/http/upstream_pool.h"
#include "router/fleet/replica_set.h"

namespace ember::router {

class EnginePoller final : public ReplicaListener {
 public:
  EnginePoller(http::HttpLoop& loop, http::UpstreamPool& pool, ReplicaSet& replicas,
               Duration interval)
      : loop_(loop), pool_(pool), replicas_(replicas), interval_(interval) {}

  void OnAdded(const Endpoint& endpoint) override;
  void OnRemoved(const Endpoint& endpoint) override;

 private:
  using Stop = std::shared_ptr<http::Cancellation>;
  using Reports = std::map<uint32_t, EngineLoad>;
  boost::asio::awaitable<void> Poll(std::shared_ptr<Endpoint> endpoint, Stop stop);
  boost::asio::awaitable<Result<Reports>> Ask(const Endpoint& endpoint, http::Cancellation& stop);
  void Apply(const Endpoint& endpoint, const Reports& reports);

  http::HttpLoop& loop_;
  http::UpstreamPool& pool_;
  ReplicaSet& replicas_;
  const Duration interval_;
  std::map<const Endpoint*, Stop> polls_;
};

}  // namespace ember::router
