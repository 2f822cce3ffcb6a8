// ServerShared: what the connections of one HttpServer have in common. Lives as long as the last of
// them. Safe from any thread.
#pragma once

#include <array>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "client/http/body_budget.h"
#include "client/http/server.h"
#include "proto/base/metrics.h"

namespace ember::http {

class ServerConnection;

struct ServerMetrics {
  ServerMetrics(MetricsRegistry* registry, const std::string& prefix);
  Counter& ResponsesOf(int status) {
    return *by_class[status >= 100 && status < 600 ? status / 100 : 0];
  }

 private:
  std::unique_ptr<MetricsRegistry> own;  // when none was given
  MetricsRegistry& registry;
  std::array<Counter*, 6> by_class;

 public:
  Gauge& connections;
  Counter& requests;
  Counter& refused_connections;
  Counter& client_gone;
  Counter& handler_failures;
};

struct ServerShared {
  ServerShared(HttpServerOptions o, Handler h, RefusalHandler r)
      : options(std::move(o)),
        handler(std::move(h)),
        refusal(std::move(r)),
        budget(options.max_buffered_bytes),
        metrics(options.metrics, options.metrics_prefix),
        tls_(options.tls) {}

  // Adds a connection. False: the limit is reached or the server stops.
  bool Add(const std::shared_ptr<ServerConnection>& connection);
  void Remove(ServerConnection* connection);
  std::vector<std::shared_ptr<ServerConnection>> Snapshot();
  // Of new connections; null: plain HTTP.
  std::shared_ptr<TlsContext> tls();
  void SetTls(std::shared_ptr<TlsContext> tls);

  const HttpServerOptions options;
  const Handler handler;
  const RefusalHandler refusal;
  BodyBudget budget;
  ServerMetrics metrics;
  std::atomic<int> refusals{0};  // connections being told "busy"
  std::atomic<size_t> requests_cut{0};
  std::atomic<bool> winding_down{false};

  std::mutex mutex;
  std::condition_variable became_empty;
  std::unordered_map<ServerConnection*, std::shared_ptr<ServerConnection>> connections;
  bool stopping = false;

 private:
  std::shared_ptr<TlsContext> tls_;  // under the mutex
};

}  // namespace ember::http
