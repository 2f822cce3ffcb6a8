// HealthProber: asks each replica's GET /health at the pace that its Health wants, as long as it
// lives. Constructed, and destroyed, while the loop runs or after it has ended.
#pragma once

#include <functional>
#include <memory>

#include "client/http/upstream_pool.h"
#include "router/fleet/replica_set.h"

namespace ember::router {

class HealthProber {
 public:
  using OnChange = std::function<void(ReplicaNumber)>;

  // Starts probing. `on_change` is called on the loop thread when a replica becomes usable or stops
  // being so. `replicas` and `pool` must outlive the loop's threads.
  HealthProber(http::HttpLoop& loop, http::UpstreamPool& pool, ReplicaSet& replicas,
               OnChange on_change);

 private:
  boost::asio::awaitable<void> Probe(ReplicaNumber replica);
  boost::asio::awaitable<Status> Ask(ReplicaNumber replica);

  http::UpstreamPool& pool_;
  ReplicaSet& replicas_;
  OnChange on_change_;
};

}  // namespace ember::router
