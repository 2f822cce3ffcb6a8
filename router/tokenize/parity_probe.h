// ParityProbe: compares the tokens that are made in process with those of each engine itself, when
// a replica comes and at intervals. A model whose tokens differ is not trusted until all its
// replicas that answer agree again; its prompts then come from the engine.
//
// Concurrency: the router's loop thread. What it refers to must outlive the loop's threads.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "client/http/loop.h"
#include "router/fleet/replica_set.h"
#include "router/tokenize/engine_endpoint.h"
#include "router/tokenize/local_tokenizer.h"

namespace ember::router {

struct ParityProbeOptions {
  Duration interval = seconds(60);  // zero: never
  Duration retry = seconds(2);      // while the engine can't be asked
  Duration timeout = seconds(5);    // for one question
};

class ParityProbe final : public ReplicaListener {
 public:
  ParityProbe(http::HttpLoop& loop, http::UpstreamPool& pool, ReplicaSet& replicas,
              LocalTokenizer& local, MetricsRegistry& metrics, ParityProbeOptions options);

  void OnAdded(const Endpoint& endpoint) override;
  void OnRemoved(const Endpoint& endpoint) override;
  void OnModelsChanged(const Endpoint& endpoint) override;

 private:
  using Stop = std::shared_ptr<http::Cancellation>;
  boost::asio::awaitable<void> Watch(std::shared_ptr<Endpoint> endpoint, Stop stop);
  // Nothing: the engine could not be asked. Else whether all tokens were equal.
  boost::asio::awaitable<std::optional<bool>> Compare(const Endpoint& endpoint, Stop stop);
  boost::asio::awaitable<std::optional<bool>> CompareModel(const ReplicaConfig& replica,
                                                           const std::string& model, Stop stop);
  // What was found at the replica, but for these.
  void Forget(const std::string& replica, const std::set<LoadedModel*>& but);
  // Those that it serves, but for adapters, which have their base's tokens.
  std::vector<std::string> ModelsOf(const Endpoint& endpoint) const;
  void Judge(const std::string& replica, const std::string& model, bool equal);

  http::HttpLoop& loop_;
  ReplicaSet& replicas_;
  LocalTokenizer& local_;
  EngineEndpoint engine_;
  const ParityProbeOptions options_;
  Counter& equal_;
  Counter& different_;
  std::map<const Endpoint*, Stop> watches_;
  // By tokenizer: the replicas whose tokens differ.
  std::map<LoadedModel*, std::set<std::string>> differing_;
};

}  // namespace ember::router
