// AgentDoor: the replica's side of proto/rpc/agent.proto: what a router follows and asks.
// Any thread. Life: as long as the process.
#pragma once

#include <memory>

#include "proto/base/status.h"
#include "tests/bench/replica/replica.h"

namespace ember::bench {

class AgentDoor {
 public:
  // On 127.0.0.1. kUnavailable: the port is in use.
  static Result<std::unique_ptr<AgentDoor>> Listen(uint16_t port, Replica& replica);
  ~AgentDoor();

 private:
  struct Impl;
  explicit AgentDoor(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace ember::bench
