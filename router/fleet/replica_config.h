// ReplicaConfig: one --replica of the command line. A plain value.
#pragma once

#include <string>
#include <string_view>

#include "client/http/origin.h"
#include "proto/base/status.h"

namespace ember::router {

struct ReplicaConfig {
  std::string id;     // letters, digits and "._-", at most 64
  http::Origin http;  // where requests go
  std::string grpc;   // its agent's address; empty: an engine without one

  // "r1,http=127.0.0.1:9001,grpc=127.0.0.1:9002"; kInvalid says what is wrong.
  static Result<ReplicaConfig> Parse(std::string_view text);
};

}  // namespace ember::router
