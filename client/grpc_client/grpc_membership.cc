#include "client/grpc_client/grpc_membership.h"

#include <future>
#include <map>

namespace ember {
namespace {

constexpr Duration kViewAge = seconds(5);      // asked for again when it is older
constexpr Duration kViewTimeout = seconds(2);  // of one node

Result<cluster::View> ViewOf(const rpc::StoreStatus& status) {
  cluster::View view;
  view.number = status.view_number();
  for (const rpc::StoreMember& member : status.members()) {
    Result<io::Endpoint> endpoint = io::Endpoint::Parse(member.address());
    if (!endpoint.ok()) return endpoint.status();
    view.members.push_back({.id = member.id(),
                            .host = endpoint->host,
                            .port = endpoint->port,
                            .weight = member.weight(),
                            .zone = member.zone()});
  }
  return view;
}

}  // namespace

GrpcMembership::GrpcMembership(const std::vector<io::Endpoint>& addresses) {
  for (const io::Endpoint& address : addresses)
    nodes_.push_back(std::make_shared<GrpcNode>(address));
}

std::vector<Result<rpc::StoreStatus>> GrpcMembership::AskAll(TimePoint deadline) {
  std::vector<std::future<Result<rpc::StoreStatus>>> asked;
  for (const auto& node : nodes_) {
    asked.push_back(
        std::async(std::launch::async, [&node, deadline] { return node->GetStatus(deadline); }));
  }
  std::vector<Result<rpc::StoreStatus>> statuses;
  for (auto& one : asked) statuses.push_back(one.get());
  return statuses;
}

Result<std::shared_ptr<const GrpcCluster>> GrpcMembership::Get(TimePoint deadline) {
  const TimePoint now = std::chrono::steady_clock::now();
  {
    const std::lock_guard lock(mutex_);
    if (closed_) return CancelledError("the client is shut down");
    if (cluster_ != nullptr && now - cluster_->learned < kViewAge) return cluster_;
  }
  const auto statuses = AskAll(std::min(deadline, now + kViewTimeout));
  auto cluster = std::make_shared<GrpcCluster>();
  cluster->learned = now;
  std::map<std::string, std::shared_ptr<GrpcNode>> by_id;
  Status why = UnavailableError("no node answers");
  for (size_t i = 0; i < statuses.size(); ++i) {
    if (!statuses[i].ok()) {
      why = statuses[i].status().WithContext("node " + nodes_[i]->endpoint().ToString());
      continue;
    }
    by_id[statuses[i]->node_id()] = nodes_[i];
    Result<cluster::View> view = ViewOf(*statuses[i]);
    if (view.ok() && view->number >= cluster->view.number) cluster->view = *std::move(view);
  }
  if (by_id.empty()) return why;
  for (const wire::Member& member : cluster->view.members) {
    const auto at = by_id.find(member.id);
    cluster->nodes.push_back(at == by_id.end() ? nullptr : at->second);
  }
  const std::lock_guard lock(mutex_);
  cluster_ = cluster;
  return cluster_;
}

std::vector<StoreClient::NodeState> GrpcMembership::States() {
  const auto statuses = AskAll(std::chrono::steady_clock::now() + kViewTimeout);
  std::vector<StoreClient::NodeState> states;
  for (size_t i = 0; i < statuses.size(); ++i) {
    const bool up = statuses[i].ok();
    states.push_back({.id = up ? statuses[i]->node_id() : "",
                      .endpoint = nodes_[i]->endpoint(),
                      .reachable = up,
                      .last_error = up ? "" : statuses[i].status().ToString()});
  }
  return states;
}

void GrpcMembership::Close() {
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  for (const auto& node : nodes_) node->Cancel();
}

}  // namespace ember
