// Config: the agent's command line.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "client/http/origin.h"
#include "client/io/loop.h"
#include "proto/base/status.h"
#include "proto/base/time.h"

namespace ember::agent {

struct Config {
  http::Origin listen;
  http::Origin grpc;
  http::Origin engine;
  std::string model_file;
  std::string slot_dir;
  std::string replica_id;
  std::vector<io::Endpoint> stores;
  uint32_t slots = 0;  // 0: all the engine has
  std::string tenant;
  std::string salt;
  std::string engine_settings;
  std::string log_level;
  io::Backend io_backend = io::Backend::kAuto;
  uint32_t max_waiting = 256;
  size_t prefetch_bytes = 256u << 20;  // 0: nothing is received ahead
  Duration prefetch_keep = seconds(30);

  // Nothing: help or version was asked for and printed to stdout. kInvalid: one line that says what
  // is wrong.
  static Result<std::optional<Config>> FromCommandLine(int argc, char** argv);
};

}  // namespace ember::agent
