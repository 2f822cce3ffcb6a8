// HttpFlags: the part of the command line about HTTP itself: TLS, paths, limits and time-outs of
// the listener. A plain value; used once at start.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "router/service.h"

namespace ember::router {

struct HttpFlags {
  void Declare(CLI::App& app);
  // kInvalid: what is wrong with which flag.
  Status Interpret(ServiceOptions* out) const;

  std::string tls_cert, tls_key, tls_client_ca, upstream_ca;
  std::vector<std::string> allowed_paths, cors_origins;
  std::optional<size_t> max_connections;
  size_t max_replica_connections = 4096;
  size_t max_header_kib = 32;
  size_t max_body_mib = 64;
  size_t max_buffered_mib = 1024;
  FanOutCaps fan_out;
  int header_timeout_ms = 15000;
  int body_timeout_ms = 60000;
  int keep_alive_timeout_ms = 75000;
  int write_timeout_ms = 60000;
  size_t min_read_rate = 1024;
};

}  // namespace ember::router
