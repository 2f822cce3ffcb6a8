// GrpcLeaseReturns: leases that are done with, on their way back to their nodes.
//
// Operation: a thread of its own, from the first release on, sends them one after the other, for
// whoever releases a lease must not wait for the network.
// Concurrency: any thread. Life: shared by the client and the leases that its callers hold; after
// Close nothing is taken any more.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "client/grpc_client/grpc_node.h"

namespace ember {

class GrpcLeaseReturns {
 public:
  // One node's part of a lease.
  struct Return {
    std::shared_ptr<GrpcNode> node;
    rpc::ReleaseLeasesRequest leases;
  };

  GrpcLeaseReturns() = default;
  GrpcLeaseReturns(const GrpcLeaseReturns&) = delete;
  ~GrpcLeaseReturns() { Close(); }

  void Add(const std::vector<Return>& returns);
  // Sends what is left until one is not taken. Idempotent.
  void Close();

 private:
  void Run();

  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<Return> returns_;
  bool closed_ = false;
  std::thread thread_;
};

}  // namespace ember
