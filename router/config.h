// Config: the router's command line.
#pragma once

#include <optional>
#include <string>

#include "client/http/origin.h"
#include "router/service.h"

namespace ember::router {

struct Config {
  ServiceOptions service;
  std::optional<http::Origin> grpc;   // nothing: no gRPC port
  Duration drain_delay = seconds(5);  // from SIGTERM to the listener's end
  Duration grace = seconds(10);       // for requests in flight after it
  std::string log_level;

  // Nothing: help or version was asked for and printed to stdout. kInvalid: one line that says what
  // is wrong.
  static Result<std::optional<Config>> FromCommandLine(int argc, const char* const* argv);
};

}  // namespace ember::router
