#include "router/fleet/agent_watchers.h"

#include <boost/asio/post.hpp>
#include <utility>

namespace ember::router {

void AgentWatchers::OnAdded(const Endpoint& endpoint) {
  if (endpoint.config.grpc.empty()) return;
  const ReplicaNumber number = endpoint.members.front();
  watchers_[number] =
      std::make_unique<AgentWatcher>(loop_, listener_, number, endpoint.config.grpc);
}

void AgentWatchers::OnRemoved(const Endpoint& endpoint) {
  const auto watcher = watchers_.find(endpoint.members.front());
  if (watcher == watchers_.end()) return;
  watcher->second->Mute();
  boost::asio::post(ending_, [gone = std::shared_ptr<AgentWatcher>(std::move(watcher->second))] {});
  watchers_.erase(watcher);
}

}  // namespace ember::router
