// EngineTokenizer: asks the agent of a replica, which asks its engine: the tokens are the engine's
// own by construction. Answers are cached by the body's digest.
//
// Concurrency: the router's loop thread. `replicas`, `agents` and `metrics` must outlive it.
#pragma once

#include "proto/base/metrics.h"
#include "router/fleet/replica_set.h"
#include "router/tokenize/agent_client.h"
#include "router/tokenize/prompt_cache.h"

namespace ember::router {

struct EngineTokenizerOptions {
  Duration deadline = milliseconds(250);  // for one request, however many agents are asked
  size_t max_body_bytes = 3u << 20;       // within gRPC's usual limit of 4 MiB a message
  size_t cache_bytes = 16u << 20;
};

class EngineTokenizer final : public Tokenizer {
 public:
  EngineTokenizer(const ReplicaSet& replicas, AgentClient& agents, MetricsRegistry& metrics,
                  EngineTokenizerOptions options = {});
  boost::asio::awaitable<Result<SharedPrompt>> Tokenize(std::string_view path,
                                                        std::string_view body) override;
  void Forget() override { cache_.Clear(); }
  // Some replica has an agent, reachable or not.
  bool AnyAgent() const;

 private:
  boost::asio::awaitable<Result<TokenizedPrompt>> Ask(std::string_view path, std::string_view body);
  Result<SharedPrompt> Failed(const Status& why);
  Counter& FailuresFor(StatusCode why);

  const ReplicaSet& replicas_;
  AgentClient& agents_;
  const EngineTokenizerOptions options_;
  PromptCache cache_;
  MetricsRegistry& metrics_;
  Counter& hits_;
  Histogram& latency_;
};

}  // namespace ember::router
