// AgentClient: the questions that the router asks an agent. One implementation speaks gRPC
// (grpc_agent_client.h); tests have their own.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <string_view>

#include "proto/base/time.h"
#include "router/fleet/agent_event.h"
#include "router/tokenize/tokenizer.h"

namespace ember::router {

class AgentClient {
 public:
  virtual ~AgentClient() = default;
  // False: that replica has no agent to ask.
  virtual bool CanAsk(ReplicaNumber replica) const = 0;
  // `path` and `body` stay valid until the coroutine ends, which is at the deadline at the latest.
  virtual boost::asio::awaitable<Result<TokenizedPrompt>> Tokenize(ReplicaNumber replica,
                                                                   std::string_view path,
                                                                   std::string_view body,
                                                                   Duration deadline) = 0;
};

}  // namespace ember::router
