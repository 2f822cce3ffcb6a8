// PrefixVerifier: asks the replicas themselves, by their agents, how much of a prompt they and the
// store hold, and says it beside what the index was told. For people who doubt the index: nothing
// is changed by the answers, and no request waits for them.
//
// Bounded in how many are asked at one time, and how long they have.
// Concurrency: the router's loop thread. Life: what it refers to must outlive the loop's
// coroutines, and so must this.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <string>
#include <vector>

#include "router/matching/prefix_matcher.h"
#include "router/telemetry/labelled_counters.h"
#include "router/tokenize/agent_client.h"

namespace ember::router {

class PrefixVerifier {
 public:
  PrefixVerifier(boost::asio::any_io_executor executor, AgentClient& agents, ReplicaSet& replicas,
                 PrefixMatcher& matcher, MetricsRegistry& registry);

  // What the index says of the prompt at one replica, in tokens from its start.
  struct Told {
    ReplicaNumber replica = 0;
    uint32_t tokens = 0;
    uint32_t store_tokens = 0;  // under the names of that replica
  };
  // A JSON array with an object a replica, in their order. kBusy: too much is being verified
  // already.
  boost::asio::awaitable<Result<std::string>> Verify(SharedPrompt prompt, std::vector<Told> told);

 private:
  struct Question;
  struct Verification;
  boost::asio::awaitable<void> Ask(std::shared_ptr<Verification> all, size_t at);

  const boost::asio::any_io_executor executor_;
  AgentClient& agents_;
  ReplicaSet& replicas_;
  PrefixMatcher& matcher_;
  LabelledCounters outcomes_;
  size_t under_way_ = 0;
};

}  // namespace ember::router
