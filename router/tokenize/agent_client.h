// AgentClient: what the router asks an agent, and the hints that it gives. One implementation
// speaks gRPC (grpc_agent_client.h); tests have their own.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "proto/base/time.h"
#include "router/fleet/agent_event.h"
#include "router/tokenize/tokenizer.h"

namespace ember::router {

// A request that will be sent to the replica and load its prefix from the store.
struct PrefetchHint {
  std::string path;
  std::string body;
  std::vector<TokenId> tokens;  // the prompt's first ones; empty: not known, path and body say it
  uint32_t wanted = 0;          // tokens, from the prompt's start
};

// Blocks of a chain, unbroken from its start.
struct LongestPrefix {
  uint32_t local_blocks = 0;  // in the replica's own memory
  uint32_t store_blocks = 0;
};

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
  // "accepted", "already_there", "no_room", "nothing", or "unknown" (a constant). When the
  // coroutine is first suspended the hint is on its way; it ends at the deadline at the latest.
  virtual boost::asio::awaitable<Result<std::string_view>> Prefetch(ReplicaNumber replica,
                                                                    PrefetchHint hint,
                                                                    Duration deadline) = 0;
  // How much of the chain, which is in the agent's own names, there really is. Ends at the deadline
  // at the latest.
  virtual boost::asio::awaitable<Result<LongestPrefix>> AskLongestPrefix(ReplicaNumber replica,
                                                                         BlockChain chain,
                                                                         Duration deadline) = 0;
};

}  // namespace ember::router
