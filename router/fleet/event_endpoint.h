// EventEndpoint: where an engine publishes its KV events, as a ZeroMQ address that can be connected
// to. A plain value.
#pragma once

#include <string>
#include <string_view>

#include "proto/base/status.h"

namespace ember::router {

struct EventEndpoint {
  std::string address;  // "tcp://HOST:PORT" or "ipc:///PATH"

  // kInvalid says what is wrong. Wildcards are for those who bind.
  static Result<EventEndpoint> Parse(std::string_view text);
  // That of a data-parallel rank, when this is what the engine is configured with: vLLM and SGLang
  // add the rank to the port. kInvalid: there is no such port.
  Result<EventEndpoint> OfRank(uint32_t rank) const;
};

}  // namespace ember::router
