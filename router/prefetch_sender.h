// PrefetchSender: tells a replica's agent which prefix a request that is about to be sent there
// will want from the store, so that the transfer overlaps the request's waiting.
//
// Nobody waits for a hint and nothing depends on it: it is dropped rather than queued, and what
// became of it is a counter.
//
// Concurrency: the router's loop thread. Life: agents and registry must outlive the loop's
// coroutines, and so must this.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <map>

#include "client/http/request.h"
#include "router/telemetry/labelled_counters.h"
#include "router/tokenize/agent_client.h"

namespace ember::router {

class PrefetchSender {
 public:
  PrefetchSender(boost::asio::any_io_executor executor, AgentClient& agents,
                 MetricsRegistry& registry);

  // `wanted`: tokens of the prompt, from its start, that the store is thought to have. On return
  // the hint is on its way, or dropped.
  void Send(ReplicaNumber replica, const http::Request& request, const TokenizedPrompt& prompt,
            uint32_t wanted);

 private:
  boost::asio::awaitable<void> Run(ReplicaNumber replica, PrefetchHint hint);

  const boost::asio::any_io_executor executor_;
  AgentClient& agents_;
  LabelledCounters outcomes_;
  size_t in_flight_ = 0;
  std::map<ReplicaNumber, size_t> in_flight_at_;
};

}  // namespace ember::router
