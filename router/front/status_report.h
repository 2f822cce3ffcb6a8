// StatusReport: what the router is doing at one moment, as plain values; the JSON page and the gRPC
// service say the same from it.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "router/fleet/replica_set.h"
#include "router/index/prefix_index.h"
#include "router/stores/store_feed.h"
#include "router/tokenize/tokenizer_report.h"

namespace ember::router {

struct ReplicaReport {
  std::string id;
  std::optional<uint32_t> rank;  // data-parallel
  std::string http_address;
  std::string state;  // as Endpoint::state
  bool healthy = false;
  std::string why_unhealthy;
  std::string model;  // as its agent says, else the first that it lists
  // That it is known to serve, adapters among them. Never null; one for all of its ranks.
  std::shared_ptr<const std::vector<std::string>> models;
  bool agent_connected = false;
  ReplicaLoad load;
  uint32_t under_way = 0;  // our requests
  HolderId holder = kNoHolder;
  HeldCount held;      // blocks
  std::string events;  // as EventFeed::StateOf
  ReplicaCache cache;
  double load_tokens_per_ms = 0;
  PrefillModel prefill;
  ReplicaTotals totals;
  // Of the whole replica; only with its first rank.
  std::optional<std::array<uint64_t, kEjectionReasons>> ejections;
  uint64_t refusals = 0;  // of the replica; where ejections are
};

struct StatusReport {
  std::string default_policy;
  bool stopping = false;  // it is about to end, and serves those who still come
  double uptime_seconds = 0;
  uint64_t waiting = 0;  // requests, for a replica's room
  uint64_t index_blocks = 0;
  uint64_t index_bytes = 0;
  std::vector<ReplicaReport> replicas;
  std::map<std::string, bool> fleet_sources;  // whether each is in trouble
  std::vector<StoreReport> stores;            // nodes whose feeds are followed
  TokenizerReport tokenizer;

  // On the router's loop thread.
  static StatusReport Of(const ReplicaSet& replicas, const PrefixIndex& index);
  std::string Json() const;
  // What /metrics says of the index, each replica and each store node. Made for each scrape, so
  // that a replica that is gone leaves nothing behind.
  std::string PrometheusText() const;
};

}  // namespace ember::router
