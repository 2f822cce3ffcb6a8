// EventFollower: follows the KV events of every replica that publishes them, from its coming to its
// going: the fleet's changes on one side, EventSubscriber and EventFeed on the other.
//
// Concurrency: told of changes on the loop's thread, as the feed is used there; Close from any
// other thread. Life: what it refers to must outlive it. It is to be told of a replica after
// whoever gives the replica its holders, and those are cleared or removed by others.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "router/events/event_feed.h"
#include "router/events/event_subscriber.h"
#include "router/fleet/replica_listener.h"
#include "router/fleet/replica_set.h"

namespace ember::router {

class EventFollower final : public ReplicaListener {
 public:
  EventFollower(http::HttpLoop& loop, PrefixIndex& index, RandomSource& random,
                MetricsRegistry& registry, const ReplicaSet& replicas)
      : loop_(loop),
        replicas_(replicas),
        metrics_(registry),
        feed_(index, random, metrics_),
        keys_(random.Next()) {}

  EventFeed& feed() { return feed_; }
  const EventFeed& feed() const { return feed_; }

  void OnAdded(const Endpoint& endpoint) override;
  // Its cache may be that of another process.
  void OnReadmitted(const Endpoint& endpoint) override;
  void OnRemoved(const Endpoint& endpoint) override;

  // Nothing is heard any more, nor followed. While the loop runs; idempotent.
  void Close();

 private:
  http::HttpLoop& loop_;
  const ReplicaSet& replicas_;
  EventMetrics metrics_;
  EventFeed feed_;
  const EngineKeyFold keys_;
  std::map<const Endpoint*, std::vector<EventSourceId>> sources_;
  std::unique_ptr<EventSubscriber> subscriber_;  // the loop's; from the first source on
  bool closing_ = false;                         // the loop's
  bool closed_ = false;                          // of the thread that closes
};

}  // namespace ember::router
