// AdminHttp: the node's HTTP door for people and scrapers: GET /metrics (Prometheus text) and
// GET /healthz (200 "ok", or 503).
//
// Concurrency: `alive` and the registry are used from its own thread; the methods are for any.
#pragma once

#include <functional>
#include <memory>

#include "client/io/stream.h"
#include "proto/base/metrics.h"
#include "proto/base/time.h"

namespace ember::kv {

class AdminHttp {
 public:
  // kUnavailable when the address is not free. `metrics` outlives it; `alive` must not wait.
  static Result<std::unique_ptr<AdminHttp>> Start(const io::Endpoint& endpoint,
                                                  MetricsRegistry* metrics,
                                                  std::function<bool()> alive);
  ~AdminHttp();

  uint16_t port() const;

 private:
  struct Impl;
  explicit AdminHttp(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace ember::kv
