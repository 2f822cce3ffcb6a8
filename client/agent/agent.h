// Agent: the whole sidecar but its gRPC door: HTTP server, engine, slots, store client, pusher.
//
// Concurrency: everything of a request runs on one HTTP loop thread; the methods here are safe from
// any other thread. Life: Stop() (or the destructor) lets requests in flight and pushes end for a
// few seconds, then everything is gone.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>

#include "client/agent/agent_feed.h"
#include "client/agent/config.h"
#include "client/agent/prefetch_hints.h"
#include "client/store_client/store_client.h"
#include "proto/base/status.h"

namespace ember::agent {

struct TokenizedRequest {
  NamespaceId ns;
  uint32_t token_count = 0;
  std::vector<BlockHash> blocks;
};

class Agent {
 public:
  using StoreMaker =
      std::function<Result<std::unique_ptr<StoreClient>>(const Config&, MetricsRegistry&)>;

  // Listens at once; the engine may come later. `on_ready` is called once, on the loop's thread,
  // when the engine is there. kInvalid, kNotFound, kUnavailable: what in the configuration can't be
  // used.
  // `make_store` is not called when the configuration names no stores.
  static Result<std::unique_ptr<Agent>> Start(Config config,
                                              const StoreMaker& make_store = ConnectToStores);
  // The store client for config.stores.
  static Result<std::unique_ptr<StoreClient>> ConnectToStores(const Config& config,
                                                              MetricsRegistry& metrics);
  ~Agent();

  uint16_t port() const;
  // Calls `ready` once, on the loop's thread, when the engine is there: with "on", or "off: " and
  // why there is no cache.
  void OnReady(std::function<void(const std::string& cache)> ready);
  AgentFeed& feed();

  // Blocking, bounded by a deadline. kInvalid: not a request whose tokens can be told.
  Result<TokenizedRequest> Tokenize(const std::string& path, const std::string& body);
  // Has the store's part of a prompt received whose request will come. Returns at once.
  PrefetchAnswer Prefetch(PrefetchHint hint);
  // Blocks of the chain that the store has from its start. Blocking, at most a second.
  size_t StorePrefix(std::span<const BlockHash> chain);

  void Stop();

 private:
  struct Impl;
  explicit Agent(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace ember::agent
