// ControlService: the node's gRPC door: StoreControl, StoreData, the standard health service, and
// reflection.
//
// Concurrency: gRPC's own threads call `status` and post to the shards; the methods are for any
// thread. Life: the shards outlive it.
#pragma once

#include <functional>
#include <memory>

#include "client/io/stream.h"
#include "kvstore/server/node_status.h"
#include "kvstore/server/shard_door.h"
#include "proto/base/time.h"

namespace ember::kv {

// What the door needs of its node.
struct ControlSources {
  std::function<Result<NodeStatus>(Duration timeout)> status;
  std::vector<ShardDoor> shards;       // by number
  MetricsRegistry* metrics = nullptr;  // outlives the door
};

class ControlService {
 public:
  // Listens on `endpoint` alone: kUnavailable when the address is not free.
  static Result<std::unique_ptr<ControlService>> Start(const io::Endpoint& endpoint,
                                                       ControlSources sources);
  ~ControlService();

  uint16_t port() const;
  // What the health service answers, for "", "ember.rpc.StoreControl" and "ember.rpc.StoreData".
  void SetServing(bool serving);
  // Lets calls in flight end within `grace`. Idempotent.
  void Stop(Duration grace);

 private:
  struct Impl;
  explicit ControlService(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace ember::kv
