// NodeConfig: what the command line of ember-store says.
#pragma once

#include <optional>
#include <string>

#include "client/cluster/view.h"
#include "client/io/loop.h"
#include "kvstore/disk/disk_options.h"
#include "kvstore/engine/eviction_policy.h"

namespace ember::kv {

struct DiskConfig {
  std::string directory;
  uint64_t capacity_bytes = 0;  // of all shards together
  WritePolicy policy = WritePolicy::kThrough;
  uint64_t scrub_bytes_per_second = 16ull << 20;
};

struct NodeConfig {
  std::string cluster;  // stands in the data directory; may be empty
  std::string node_id = "s1";
  io::Endpoint listen{"127.0.0.1", 7101};
  std::optional<io::Endpoint> grpc = io::Endpoint{"127.0.0.1", 7201};   // none: off
  std::optional<io::Endpoint> admin = io::Endpoint{"127.0.0.1", 7301};  // none: off
  uint64_t memory_bytes = 512ull << 20;                                 // of all shards together
  uint32_t shards = 1;
  std::optional<DiskConfig> disk;  // none: memory only
  Duration ttl{};                  // zero: for ever
  std::vector<std::pair<NamespaceId, Duration>> namespace_ttls;
  bool prealloc = false;
  std::string eviction{kDefaultEviction};
  uint64_t max_segment_bytes = 0;  // 0: as much as the protocol and the memory allow
  std::optional<cluster::View> peers;
  io::Backend backend = io::Backend::kAuto;
  // Where the sockets are that hand the memory to clients on this host; none: off.
  std::optional<std::string> shm_dir;
  Duration spin = microseconds(50);  // how long a shard looks for work before it sleeps; zero: not
  std::string log_level = "info";
};

// What to do after reading the command line: run with `config`, or print `output` and exit.
struct ParsedConfig {
  std::optional<NodeConfig> config;
  std::string output;  // help or version for stdout, or one line for stderr
  int exit_code = 0;   // 2 when the command line is wrong
};

ParsedConfig ParseConfig(int argc, const char* const* argv);

// "500ms", "30s", "10m", "24h", "7d"; "0" is zero. kInvalid with the reason.
Result<Duration> ParseDuration(std::string_view text);

// "512MiB", "1.5GiB", "64KiB", "4096" (bytes), and the decimal KB, MB, GB. kInvalid with the
// reason.
Result<uint64_t> ParseByteSize(std::string_view text);

}  // namespace ember::kv
