// GrpcMembership: the cluster as its nodes' gRPC doors tell it: the newest view, and which address
// is which member's.
//
// Every node is asked, because which of them is which member only they know; again when the answer
// is a few seconds old. Any thread.
#pragma once

#include "client/cluster/view.h"
#include "client/grpc_client/grpc_node.h"

namespace ember {

// The members, and how each is reached; null: its gRPC address was not given, or does not answer.
struct GrpcCluster {
  cluster::View view;
  std::vector<std::shared_ptr<GrpcNode>> nodes;
  TimePoint learned;
};

class GrpcMembership {
 public:
  explicit GrpcMembership(const std::vector<io::Endpoint>& addresses);

  // kCancelled after Close; else the last node's error when none answers.
  Result<std::shared_ptr<const GrpcCluster>> Get(TimePoint deadline);
  std::vector<StoreClient::NodeState> States();
  // Ends what is running on the nodes, and whatever comes later.
  void Close();

 private:
  std::vector<Result<rpc::StoreStatus>> AskAll(TimePoint deadline);

  std::vector<std::shared_ptr<GrpcNode>> nodes_;
  std::mutex mutex_;
  bool closed_ = false;  // under mutex_, as what follows
  std::shared_ptr<const GrpcCluster> cluster_;
};

}  // namespace ember
