// StatusService: the router's gRPC port: GetStatus for `ember status`, gRPC's own health service
// and reflection. Concurrency: gRPC's threads call `status`. Life: what it calls must outlive it.
#pragma once

#include <functional>
#include <memory>

#include "client/http/origin.h"
#include "router/front/status_report.h"

namespace ember::router {

class StatusService {
 public:
  using GetStatus = std::function<Result<StatusReport>()>;

  // `address` may have port 0. kUnavailable: in use, or not ours.
  static Result<std::unique_ptr<StatusService>> Listen(const http::Origin& address,
                                                       GetStatus status);
  ~StatusService();
  uint16_t port() const;
  // From now on the health service says NOT_SERVING.
  void SetNotServing();

 private:
  struct Impl;
  explicit StatusService(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace ember::router
