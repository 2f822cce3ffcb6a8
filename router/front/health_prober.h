// HealthProber: asks each replica's health page at the pace that its Health wants, or at once and
// often while it is doubted, from its coming to its going, with the replica's own key and host
// name. The router's loop thread.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "client/http/upstream_pool.h"
#include "router/fleet/replica_set.h"

namespace ember::router {

struct HealthProberOptions {
  std::string path = "/health";
  Duration timeout = seconds(2);
};

class HealthProber final : public ReplicaListener {
 public:
  // `replicas` and `pool` must outlive the loop's threads.
  HealthProber(http::HttpLoop& loop, http::UpstreamPool& pool, ReplicaSet& replicas,
               HealthProberOptions options)
      : loop_(loop), pool_(pool), replicas_(replicas), options_(std::move(options)) {}

  void OnAdded(const Endpoint& endpoint) override;
  void OnRemoved(const Endpoint& endpoint) override;
  void OnDoubted(const Endpoint& endpoint) override;
  // Nobody needs its connections any more.
  void OnGone(const Endpoint& endpoint) override { pool_.Forget(endpoint.config.http); }

 private:
  struct Watch {
    http::Cancellation stop;
    // Ends the pause before the next probe.
    std::shared_ptr<http::Cancellation> wake = std::make_shared<http::Cancellation>();
  };
  boost::asio::awaitable<void> Probe(std::shared_ptr<Endpoint> endpoint,
                                     std::shared_ptr<Watch> watch);
  boost::asio::awaitable<Status> Ask(const Endpoint& endpoint, http::Cancellation& stop);

  http::HttpLoop& loop_;
  http::UpstreamPool& pool_;
  ReplicaSet& replicas_;
  const HealthProberOptions options_;
  std::map<const Endpoint*, std::shared_ptr<Watch>> watches_;
};

}  // namespace ember::router
