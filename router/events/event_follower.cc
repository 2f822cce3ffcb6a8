#include "router/events/event_follower.h"

#include <boost/asio/post.hpp>
#include <future>
#include <utility>

namespace ember::router {
namespace {

// ReplicaConfig takes no address that has none.
EventEndpoint EndpointOfMember(const std::string& address, uint32_t rank) {
  return *EventEndpoint{address}.OfRank(rank);
}

}  // namespace

void EventFollower::OnAdded(const Endpoint& endpoint) {
  const ReplicaConfig& config = endpoint.config;
  if (config.events.empty() || closing_) return;
  EventReplica replica{.id = config.id,
                       .model = config.models.empty() ? "" : config.models.front(),
                       .has_ranks = config.ranks > 0,
                       .first_rank = config.ranks > 0 ? config.first_rank : 0,
                       .holders = {}};
  for (const ReplicaNumber n : endpoint.members) replica.holders.push_back(replicas_.at(n).holder);
  if (replica.holders.back() == kNoHolder) return;  // more replicas than the index takes
  std::vector<EventSourceId>& sources = sources_[&endpoint];
  for (const ReplicaNumber n : endpoint.members) {
    const uint32_t rank = replicas_.at(n).rank;
    if (subscriber_ == nullptr) {
      subscriber_ = std::make_unique<EventSubscriber>(loop_, feed_, metrics_,
                                                      EventStreamOptions{.keys = keys_});
    }
    const EventSourceId source = subscriber_->Add(
        EndpointOfMember(config.events, rank),
        config.replay.empty() ? std::nullopt
                              : std::optional(EndpointOfMember(config.replay, rank)));
    feed_.AddSource(source, replica, rank);
    sources.push_back(source);
  }
}

void EventFollower::OnReadmitted(const Endpoint& endpoint) {
  const auto sources = sources_.find(&endpoint);
  if (sources == sources_.end()) return;
  for (const EventSourceId source : sources->second) {
    feed_.OnLost(source, UnavailableError("the replica was out"));
  }
  OnRemoved(endpoint);
  OnAdded(endpoint);
}

void EventFollower::OnRemoved(const Endpoint& endpoint) {
  const auto sources = sources_.find(&endpoint);
  if (sources == sources_.end()) return;
  for (const EventSourceId source : sources->second) {
    if (subscriber_ != nullptr) subscriber_->Remove(source);
    feed_.RemoveSource(source);
  }
  sources_.erase(sources);
}

void EventFollower::Close() {
  if (std::exchange(closed_, true)) return;
  // Taken on the loop, where it is used, and ended here, for ending it may wait for the loop.
  std::promise<std::unique_ptr<EventSubscriber>> taken;
  boost::asio::post(loop_.executor(), [&] {
    closing_ = true;
    taken.set_value(std::move(subscriber_));
  });
  taken.get_future().get().reset();
}

}  // namespace ember::router
