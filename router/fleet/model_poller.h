// ModelPoller: asks each replica which models it serves, at /v1/models: when it becomes usable, for
// it may be another process, now and then, for adapters come and go, and when it did not know one.
// One that could not be asked is asked again at the pace of its probes.
//
// Concurrency: the router's loop thread. `replicas` and `pool` must outlive the loop's threads.
#pragma once

#include <map>
#include <memory>
#include <optional>

#include "client/http/upstream_pool.h"
#include "router/fleet/replica_set.h"

namespace ember::router {

class ModelPoller final : public ReplicaListener {
 public:
  ModelPoller(http::HttpLoop& loop, http::UpstreamPool& pool, ReplicaSet& replicas,
              Duration interval)
      : loop_(loop), pool_(pool), replicas_(replicas), interval_(interval) {}

  void OnAdded(const Endpoint& endpoint) override;
  void OnStateChanged(const Endpoint& endpoint) override;
  void OnModelsDoubted(const Endpoint& endpoint) override;
  void OnRemoved(const Endpoint& endpoint) override;

 private:
  struct Watch {
    http::Cancellation stop;
    // Ends the pause before the next question.
    std::shared_ptr<http::Cancellation> wake = std::make_shared<http::Cancellation>();
    bool due = true;
    TimePoint asked;  // last
  };
  boost::asio::awaitable<void> Poll(std::shared_ptr<Endpoint> endpoint,
                                    std::shared_ptr<Watch> watch);
  // An error: it could not be asked. Nothing: it lists no models.
  boost::asio::awaitable<Result<std::optional<ModelList>>> Ask(const Endpoint& endpoint,
                                                               http::Cancellation& stop);

  http::HttpLoop& loop_;
  http::UpstreamPool& pool_;
  ReplicaSet& replicas_;
  const Duration interval_;
  std::map<const Endpoint*, std::shared_ptr<Watch>> watches_;
};

}  // namespace ember::router
