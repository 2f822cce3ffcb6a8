// NodeConfig: what the command line of ember-store says.
#pragma once

#include <optional>
#include <string>

#include "client/cluster/view.h"
#include "client/io/loop.h"

namespace ember::kv {

struct NodeConfig {
  std::string node_id = "s1";
  io::Endpoint listen{"127.0.0.1", 7101};
  std::optional<io::Endpoint> grpc = io::Endpoint{"127.0.0.1", 7201};   // none: off
  std::optional<io::Endpoint> admin = io::Endpoint{"127.0.0.1", 7301};  // none: off
  uint64_t memory_bytes = 512ull << 20;                                 // of all shards together
  uint32_t shards = 1;
  bool prealloc = false;
  uint64_t max_segment_bytes = 0;  // 0: as much as the protocol and the memory allow
  std::optional<cluster::View> peers;
  io::Backend backend = io::Backend::kAuto;
  std::string log_level = "info";
};

// What to do after reading the command line: run with `config`, or print `output` and exit.
struct ParsedConfig {
  std::optional<NodeConfig> config;
  std::string output;  // help or version for stdout, or one line for stderr
  int exit_code = 0;   // 2 when the command line is wrong
};

ParsedConfig ParseConfig(int argc, const char* const* argv);

// "512MiB", "1.5GiB", "64KiB", "4096" (bytes), and the decimal KB, MB, GB. kInvalid with the
// reason.
Result<uint64_t> ParseByteSize(std::string_view text);

}  // namespace ember::kv
