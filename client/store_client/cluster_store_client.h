// ClusterStoreClient: the StoreClient behind Create. It owns the loop and all that runs on
// it, and lends them to one MatchCall, GetCall or PutCall at a time and caller.
//
// Any thread, as StoreClient says.
#pragma once

#include <condition_variable>
#include <mutex>

#include "client/io/shared_loop.h"
#include "client/store_client/call_context.h"

namespace ember {

class ClusterStoreClient final : public StoreClient {
 public:
  ClusterStoreClient(StoreClientOptions options, std::unique_ptr<io::SharedLoop> loop);
  ~ClusterStoreClient() override;

  MatchResult Match(std::span<const SegmentRef> segments, Duration timeout,
                    const MatchOptions& options) override;
  GetResult Get(std::span<const GetRequest> requests, const LayoutDigest& layout,
                Duration timeout) override;
  InPlaceResult GetInPlace(std::span<const InPlaceRequest> requests, const LayoutDigest& layout,
                           Duration timeout, Duration lease) override;
  std::vector<PutOutcome> Put(std::span<const PutRequest> requests, const LayoutDigest& layout,
                              Duration timeout, const PutOptions& options) override;
  std::vector<NodeState> Nodes() override;
  void Shutdown() override;

 private:
  class CallScope;

  io::Task<Result<std::vector<NodeState>>> ProbeNodes();
  static io::Task<void> Ping(cluster::Peer* peer, TimePoint deadline);
  std::vector<NodeState> SeedStates() const;
  io::Task<Status> CloseAll();
  io::Task<void> SendReturns();

  const StoreClientOptions options_;
  MetricsRegistry own_registry_;  // when none was given
  ClientMetrics metrics_;
  const std::unique_ptr<io::SharedLoop> loop_;
  CopyHints hints_;
  Membership membership_;
  io::Gate gate_;
  const std::shared_ptr<LeaseReturns> returns_;
  CallContext context_;

  std::once_flag shutdown_;
  std::mutex mutex_;
  std::condition_variable no_calls_;
  uint32_t calls_ = 0;  // running ones; Shutdown waits for them. Guarded by mutex_
};

}  // namespace ember
