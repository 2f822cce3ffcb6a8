// ControlService: the node's gRPC door: StoreControl, the standard health service, and reflection.
//
// Concurrency: gRPC's own threads call `status`; the methods are for any thread.
#pragma once

#include <functional>
#include <memory>

#include "client/io/stream.h"
#include "kvstore/server/node_status.h"
#include "proto/base/time.h"

namespace ember::kv {

class ControlService {
 public:
  using StatusSource = std::function<Result<NodeStatus>(Duration timeout)>;

  // Listens on `endpoint` alone: kUnavailable when the address is not free.
  static Result<std::unique_ptr<ControlService>> Start(const io::Endpoint& endpoint,
                                                       StatusSource status);
  ~ControlService();

  uint16_t port() const;
  // What the health service answers, for "" and for "ember.rpc.StoreControl".
  void SetServing(bool serving);
  // Lets calls in flight end within `grace`. Idempotent.
  void Stop(Duration grace);

 private:
  struct Impl;
  explicit ControlService(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace ember::kv
