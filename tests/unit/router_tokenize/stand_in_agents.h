// Agents that nobody runs: none is there, unless the test says so.
#pragma once

#include "router/tokenize/agent_client.h"

namespace ember::router {

// Each that is there knows a chain of two blocks of whatever it is asked about, and no tokens.
class StandInAgents final : public AgentClient {
 public:
  bool CanAsk(ReplicaNumber) const override { return there; }
  boost::asio::awaitable<Result<TokenizedPrompt>> Tokenize(ReplicaNumber, std::string_view,
                                                           std::string_view, Duration) override {
    if (!there) co_return UnavailableError("no agent");
    co_return TokenizedPrompt{.token_count = 32, .chain = std::vector<BlockHash>(2)};
  }
  boost::asio::awaitable<Result<std::string_view>> Prefetch(ReplicaNumber, PrefetchHint,
                                                            Duration) override {
    co_return UnavailableError("not asked here");
  }
  boost::asio::awaitable<Result<LongestPrefix>> AskLongestPrefix(ReplicaNumber, BlockChain,
                                                                 Duration) override {
    co_return UnavailableError("not asked here");
  }
  bool there = false;
};

}  // namespace ember::router
