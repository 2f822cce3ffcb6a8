// PurgeClient: asks a node's control plane to purge. One thread.
#pragma once

#include <optional>
#include <string>

#include "proto/base/status.h"
#include "proto/base/time.h"
#include "proto/model/kv_namespace.h"

namespace ember::testing {

class PurgeClient {
 public:
  struct Scope {
    enum class Kind { kNamespace, kTenant, kEverything } kind = Kind::kEverything;
    NamespaceId ns;
    std::string tenant;
  };

  explicit PurgeClient(std::string address) : address_(std::move(address)) {}

  // OK: done and durable. Else it may have happened or not.
  Status Purge(const Scope& scope, Duration timeout);

 private:
  const std::string address_;
};

}  // namespace ember::testing
