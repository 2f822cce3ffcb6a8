// StoreData: the gRPC service that moves segments where the framed data plane can't be reached. The
// same engine behind it, reached by posts to the shards' loops.
//
// Bounds: a few calls at once, each of which holds one message and pins one segment; every call
// needs a deadline, so one that reads or writes no more ends. What a call opened ends with it.
// Concurrency: gRPC's own threads. Life: the shards outlive it.
#pragma once

#include <atomic>

#include "kvstore/server/control_metrics.h"
#include "kvstore/server/shard_door.h"
#include "proto/rpc/store_data.grpc.pb.h"

namespace ember::kv {

class StoreData final : public rpc::StoreData::Service {
 public:
  static constexpr int kMaxCalls = 32;

  StoreData(std::vector<ShardDoor> shards, ControlMetrics* metrics)
      : shards_(std::move(shards)), metrics_(metrics) {}

  grpc::Status Match(grpc::ServerContext* context, const rpc::MatchSegmentsRequest* request,
                     rpc::MatchSegmentsReply* reply) override;
  grpc::Status Release(grpc::ServerContext*, const rpc::ReleaseLeasesRequest* request,
                       rpc::ReleaseLeasesReply*) override;
  grpc::Status Put(grpc::ServerContext* context, grpc::ServerReader<rpc::PutPiece>* reader,
                   rpc::PutSegmentsReply* reply) override;
  grpc::Status Get(grpc::ServerContext* context, const rpc::GetSegmentsRequest* request,
                   grpc::ServerWriter<rpc::GetPiece>* writer) override;
  grpc::Status ReportCorrupt(grpc::ServerContext* context, const rpc::ReportCorruptRequest* request,
                             rpc::ReportCorruptReply*) override;

 private:
  class Call;

  // Runs `work` as one of the calls that are let in.
  template <typename Work>
  grpc::Status Admit(grpc::ServerContext* context, Work work);
  Status SendItem(uint32_t index, const rpc::GetSegment& item, TimePoint deadline,
                  grpc::ServerWriter<rpc::GetPiece>* writer);

  const std::vector<ShardDoor> shards_;
  ControlMetrics* const metrics_;
  const SteadyClock clock_;
  std::atomic<int> calls_{0};
  std::atomic<OwnerId> last_owner_{1ull << 63};  // connections count up from 1
};

}  // namespace ember::kv
