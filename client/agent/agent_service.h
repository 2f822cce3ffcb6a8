// AgentServer: the agent's gRPC door (proto/rpc/agent.proto), for routers.
// Concurrency: any thread. Life: the agent must outlive it; the destructor ends every call.
#pragma once

#include <memory>

#include "client/agent/agent.h"
#include "client/http/origin.h"
#include "proto/base/status.h"

namespace ember::agent {

class AgentServer {
 public:
  // kUnavailable: the address is in use or not ours.
  static Result<std::unique_ptr<AgentServer>> Listen(const http::Origin& address,
                                                     const std::string& replica_id, Agent& agent);
  ~AgentServer();
  uint16_t port() const;

 private:
  struct Impl;
  explicit AgentServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace ember::agent
