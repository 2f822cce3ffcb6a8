// StoreControl: the gRPC service of a node's control plane: status, feed, purge.
//
// Concurrency: gRPC's own threads. Life: what it is given outlives it.
#pragma once

#include <condition_variable>
#include <mutex>

#include "kvstore/server/control_service.h"
#include "kvstore/server/feed_cursor.h"
#include "kvstore/server/feed_readers.h"
#include "kvstore/server/purger.h"
#include "proto/rpc/store.grpc.pb.h"

namespace ember::kv {

class StoreControl final : public rpc::StoreControl::Service {
 public:
  StoreControl(ControlSources sources, ControlMetrics* metrics);

  grpc::Status GetStatus(grpc::ServerContext*, const rpc::GetStoreStatusRequest*,
                         rpc::StoreStatus* reply) override;
  grpc::Status Watch(grpc::ServerContext* context, const rpc::FeedRequest* request,
                     grpc::ServerWriter<rpc::FeedBatch>* writer) override;
  grpc::Status Purge(grpc::ServerContext*, const rpc::PurgeRequest* request,
                     rpc::PurgeReply* reply) override;

  // Ends the feeds.
  void Stop();

 private:
  Status Follow(grpc::ServerContext* context, FeedCursor* cursor, FeedReaders::Place* place,
                grpc::ServerWriter<rpc::FeedBatch>* writer);
  // False: the feeds are to end.
  bool WaitForNews();

  const ControlSources sources_;
  ControlMetrics* const metrics_;
  const SteadyClock clock_;
  FeedReaders readers_;
  Purger purger_;
  std::mutex mutex_;
  std::condition_variable stopped_;
  bool stopping_ = false;
};

}  // namespace ember::kv
