// GrpcNode: one store node's gRPC door as its client sees it: blocking calls with a deadline.
//
// Any thread. Cancel ends what is running and whatever comes later.
#pragma once

#include <mutex>
#include <set>

#include "client/store_client/store_client.h"
#include "proto/rpc/store.grpc.pb.h"
#include "proto/rpc/store_data.grpc.pb.h"

namespace ember {

class GrpcNode {
 public:
  explicit GrpcNode(io::Endpoint endpoint);

  const io::Endpoint& endpoint() const { return endpoint_; }

  Result<rpc::StoreStatus> GetStatus(TimePoint deadline);
  Result<rpc::MatchSegmentsReply> Match(const rpc::MatchSegmentsRequest& request,
                                        TimePoint deadline);
  // Calls `take` with each piece until it is not ok.
  Status Get(const rpc::GetSegmentsRequest& request, TimePoint deadline,
             const std::function<Status(const rpc::GetPiece&)>& take);
  // `feed` writes pieces; false from its argument: the node wants no more.
  Result<rpc::PutSegmentsReply> Put(
      TimePoint deadline,
      const std::function<void(const std::function<bool(const rpc::PutPiece&)>&)>& feed);
  // Within a second.
  Status Release(const rpc::ReleaseLeasesRequest& request);
  // Within a second; nobody needs the answer.
  void ReportCorrupt(const rpc::ReportCorruptRequest& request);
  void Cancel();

 private:
  class Call;

  const io::Endpoint endpoint_;
  const std::unique_ptr<rpc::StoreControl::Stub> control_;
  const std::unique_ptr<rpc::StoreData::Stub> data_;
  std::mutex mutex_;
  bool cancelled_ = false;
  std::set<grpc::ClientContext*> running_;
};

}  // namespace ember
