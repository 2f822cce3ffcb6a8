// GrpcAgentClient: AgentClient over gRPC, one channel a replica.
//
// Concurrency: as AgentClient; gRPC's own threads only hand the answers back to the asking
// coroutine's executor. It follows the replicas as a listener. Life: its destructor waits for the
// calls under way (their deadlines bound it), so destroy it before the loop.
#pragma once

#include <memory>

#include "router/fleet/replica_listener.h"
#include "router/tokenize/agent_client.h"

namespace ember::router {

class GrpcAgentClient final : public AgentClient, public ReplicaListener {
 public:
  GrpcAgentClient();
  ~GrpcAgentClient() override;
  void OnAdded(const Endpoint& endpoint) override;
  void OnRemoved(const Endpoint& endpoint) override;
  bool CanAsk(ReplicaNumber replica) const override;
  boost::asio::awaitable<Result<TokenizedPrompt>> Tokenize(ReplicaNumber replica,
                                                           std::string_view path,
                                                           std::string_view body,
                                                           Duration deadline) override;
  boost::asio::awaitable<Result<std::string_view>> Prefetch(ReplicaNumber replica,
                                                            PrefetchHint hint,
                                                            Duration deadline) override;
  boost::asio::awaitable<Result<LongestPrefix>> AskLongestPrefix(ReplicaNumber replica,
                                                                 BlockChain chain,
                                                                 Duration deadline) override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ember::router
