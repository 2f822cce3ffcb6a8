#include "kvstore/config.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdlib>

#include "proto/wire/limits.h"

namespace ember::kv {
namespace {

constexpr uint64_t kMinMemory = 1 << 20;
constexpr uint64_t kMaxMemory = 1ull << 44;

constexpr char kDescription[] =
    "A storage node of EmberKV: keeps KV-cache segments in memory and on disk under hard caps, "
    "and\n"
    "serves them over framed TCP. It may always miss and never lies; losing it costs time, never "
    "an\n"
    "answer.";

constexpr char kFooter[] =
    "Sizes take KiB, MiB, GiB (or KB, MB, GB). Addresses are HOST:PORT or [IPV6]:PORT; port 0 "
    "takes any\n"
    "free one, and the line \"ready node=... data=... grpc=... admin=...\" on stderr says which.\n"
    "\n"
    "Examples:\n"
    "  ember-store                                     one node on loopback, 512 MiB\n"
    "  ember-store --memory=8GiB --prealloc            memory taken at start, not at first use\n"
    "  ember-store --data=/var/lib/ember --disk=100GiB there again after a restart\n"
    "  ember-store --node-id=s1 --listen=10.0.0.1:7101 \\\n"
    "      --peers=s1=10.0.0.1:7101,s2=10.0.0.2:7101   one of a static cluster; the same list on "
    "each\n"
    "  curl -s http://127.0.0.1:7301/metrics           what it does\n"
    "\n"
    "SIGTERM or SIGINT stops it: requests that have arrived are answered first, and what is not "
    "on\n"
    "disk yet is written. Exit codes: 0 "
    "stopped,\n"
    "1 could not start, 2 wrong command line.";

// What the flags say, before it is understood.
struct RawFlags {
  std::string listen, grpc, admin, memory, max_segment, peers, io;
  std::string data, disk, disk_write, scrub_rate, ttl, shm, shm_dir;
  std::vector<std::string> namespace_ttls;
};

Status ReadEndpoint(const char* flag, const std::string& text, io::Endpoint* out) {
  if (text.empty()) return OkStatus();
  Result<io::Endpoint> endpoint = io::Endpoint::Parse(text);
  if (!endpoint.ok()) return endpoint.status().WithContext(flag);
  *out = *endpoint;
  return OkStatus();
}

Status ReadOptionalEndpoint(const char* flag, const std::string& text,
                            std::optional<io::Endpoint>* out) {
  if (text != "off") return ReadEndpoint(flag, text, &**out);
  out->reset();
  return OkStatus();
}

Status ReadSize(const char* flag, const std::string& text, uint64_t* out) {
  if (text.empty()) return OkStatus();
  Result<uint64_t> size = ParseByteSize(text);
  if (!size.ok()) return size.status().WithContext(flag);
  *out = *size;
  return OkStatus();
}

// Gone after a reboot, and for this user alone where the system has such a place.
std::string DefaultShmDir() {
  if (const char* own = std::getenv("XDG_RUNTIME_DIR"); own != nullptr && *own == '/') return own;
  if (access("/run", W_OK) == 0) return "/run";
  if (const char* temporary = std::getenv("TMPDIR"); temporary != nullptr && *temporary == '/') {
    return temporary;
  }
  return "/tmp";
}

Status ReadShm(const RawFlags& raw, NodeConfig* config) {
  if (raw.shm != "trusted") {
    if (raw.shm_dir.empty()) return OkStatus();
    return InvalidError("--shm-dir needs --shm=trusted");
  }
  if (!raw.shm_dir.empty() && raw.shm_dir[0] != '/') {
    return InvalidError("--shm-dir: clients need an absolute path");
  }
  config->shm_dir = raw.shm_dir.empty() ? DefaultShmDir() : raw.shm_dir;
  return OkStatus();
}

bool IsWildcard(const std::string& host) { return host == "0.0.0.0" || host == "::"; }

Status CheckSizes(NodeConfig* config) {
  if (config->memory_bytes < kMinMemory || config->memory_bytes > kMaxMemory) {
    return InvalidError("--memory: from 1MiB to 16384GiB");
  }
  const uint64_t of_shard = config->memory_bytes / config->shards;
  if (of_shard < kMinMemory) return InvalidError("--shards: each needs 1MiB of --memory");
  const uint64_t fits = of_shard - kMaxSegmentHeaderBytes;
  if (config->max_segment_bytes == 0) {
    config->max_segment_bytes = std::min(wire::kMaxPayloadBytes, fits);
  }
  if (config->max_segment_bytes > wire::kMaxPayloadBytes) {
    return InvalidError("--max-segment: the protocol carries at most 64MiB");
  }
  if (config->max_segment_bytes > fits) {
    return InvalidError("--max-segment: does not fit in a shard's part of --memory");
  }
  return OkStatus();
}

Status ReadDisk(const RawFlags& raw, NodeConfig* config) {
  if (raw.data.empty()) {
    for (const auto& [flag, text] :
         {std::pair("--disk", &raw.disk), std::pair("--disk-write", &raw.disk_write),
          std::pair("--scrub-rate", &raw.scrub_rate)}) {
      if (!text->empty()) return InvalidError(std::string(flag) + " needs --data=DIR");
    }
    return OkStatus();
  }
  if (raw.disk.empty()) {
    return InvalidError("--data needs --disk=SIZE, the cap of what is kept there");
  }
  DiskConfig disk{.directory = raw.data};
  EMBER_RETURN_IF_ERROR(ReadSize("--disk", raw.disk, &disk.capacity_bytes));
  EMBER_RETURN_IF_ERROR(ReadSize("--scrub-rate", raw.scrub_rate, &disk.scrub_bytes_per_second));
  if (!raw.disk_write.empty()) {
    Result<WritePolicy> policy = ParseWritePolicy(raw.disk_write);
    if (!policy.ok()) return policy.status().WithContext("--disk-write");
    disk.policy = *policy;
  }
  const Result<uint64_t> region = RegionBytesFor(
      disk.capacity_bytes / config->shards, config->max_segment_bytes + kMaxSegmentHeaderBytes);
  if (!region.ok()) {
    return region.status().WithContext(config->shards == 1 ? "--disk" : "--disk, for each shard");
  }
  config->disk = std::move(disk);
  return OkStatus();
}

Status ReadTtls(const RawFlags& raw, NodeConfig* config) {
  if (!raw.ttl.empty()) {
    const Result<Duration> ttl = ParseDuration(raw.ttl);
    if (!ttl.ok()) return ttl.status().WithContext("--ttl");
    config->ttl = *ttl;
  }
  for (const std::string& text : raw.namespace_ttls) {
    const size_t equals = text.find('=');
    NamespaceId ns;
    if (equals == std::string::npos || !FromHex(text.substr(0, equals), ns.bytes).ok()) {
      return InvalidError("--namespace-ttl: \"" + text +
                          "\" is not HEX=DURATION, with the 32 hex "
                          "digits of a namespace");
    }
    const Result<Duration> ttl = ParseDuration(text.substr(equals + 1));
    if (!ttl.ok()) return ttl.status().WithContext("--namespace-ttl");
    config->namespace_ttls.emplace_back(ns, *ttl);
  }
  return OkStatus();
}

Status CheckPeers(const NodeConfig& config) {
  if (!config.peers) {
    if (!IsWildcard(config.listen.host)) return OkStatus();
    return InvalidError("--listen on every interface needs --peers=" + config.node_id +
                        "=HOST:PORT, so that clients know an address to use");
  }
  for (const wire::Member& member : config.peers->members) {
    if (member.id != config.node_id) continue;
    const bool same_host = member.host == config.listen.host || IsWildcard(config.listen.host);
    if (same_host && member.port == config.listen.port) return OkStatus();
    return InvalidError("--peers says " + member.id + " is at " +
                        io::Endpoint{member.host, member.port}.ToString() + ", but --listen is " +
                        config.listen.ToString());
  }
  return InvalidError("--peers must contain this node, --node-id=" + config.node_id);
}

Status Understand(const RawFlags& raw, NodeConfig* config) {
  EMBER_RETURN_IF_ERROR(ReadEndpoint("--listen", raw.listen, &config->listen));
  EMBER_RETURN_IF_ERROR(ReadOptionalEndpoint("--grpc", raw.grpc, &config->grpc));
  EMBER_RETURN_IF_ERROR(ReadOptionalEndpoint("--admin", raw.admin, &config->admin));
  EMBER_RETURN_IF_ERROR(ReadSize("--memory", raw.memory, &config->memory_bytes));
  EMBER_RETURN_IF_ERROR(ReadSize("--max-segment", raw.max_segment, &config->max_segment_bytes));
  if (!raw.max_segment.empty() && config->max_segment_bytes == 0) {
    return InvalidError("--max-segment: must be above 0");
  }
  if (!raw.io.empty()) {
    Result<io::Backend> backend = io::ParseBackend(raw.io);
    if (!backend.ok()) return backend.status().WithContext("--io");
    config->backend = *backend;
  }
  EMBER_RETURN_IF_ERROR(ReadShm(raw, config));
  if (!raw.peers.empty()) {
    Result<cluster::View> view = cluster::ParseStaticView(raw.peers);
    if (!view.ok()) return view.status().WithContext("--peers");
    config->peers = *std::move(view);
  }
  // The same rules as for a peer's id: it will stand in other nodes' lists.
  const wire::Member self{.id = config->node_id, .host = "localhost", .port = 1};
  Result<cluster::View> alone = cluster::CheckedView(1, {self});
  if (!alone.ok()) return alone.status().WithContext("--node-id");
  EMBER_RETURN_IF_ERROR(CheckSizes(config));
  EMBER_RETURN_IF_ERROR(ReadDisk(raw, config));
  EMBER_RETURN_IF_ERROR(ReadTtls(raw, config));
  return CheckPeers(*config);
}

ParsedConfig Wrong(std::string_view why) {
  std::string line(why.substr(0, why.find('\n')));
  return {.config = {}, .output = "ember-store: " + line + " (see --help)", .exit_code = 2};
}

}  // namespace

Result<uint64_t> ParseByteSize(std::string_view text) {
  static constexpr std::pair<std::string_view, double> kUnits[] = {
      {"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"KB", 1e3},
      {"MB", 1e6},      {"GB", 1e9},      {"B", 1},         {"", 1}};
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string_view unit = text.substr(end - text.data());
  for (const auto& [name, factor] : kUnits) {
    if (error != std::errc() || unit != name) continue;
    const double bytes = number * factor;
    if (!(bytes >= 0 && bytes <= 9e18)) break;
    return static_cast<uint64_t>(bytes);
  }
  return InvalidError("\"" + std::string(text) + "\" is not a size such as 512MiB or 4GiB");
}

Result<Duration> ParseDuration(std::string_view text) {
  static constexpr std::pair<std::string_view, double> kUnits[] = {
      {"ms", 1e-3}, {"s", 1}, {"m", 60}, {"h", 3600}, {"d", 86400}};
  constexpr double kMaxSeconds = 100.0 * 365 * 86400;
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string_view unit = text.substr(end - text.data());
  if (error == std::errc() && number == 0 && unit.empty()) return Duration::zero();
  for (const auto& [name, factor] : kUnits) {
    if (error != std::errc() || unit != name) continue;
    const double seconds = number * factor;
    if (!(seconds >= 0 && seconds <= kMaxSeconds)) break;
    return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
  }
  return InvalidError("\"" + std::string(text) + "\" is not a time such as 30s, 10m, 24h or 7d");
}

ParsedConfig ParseConfig(int argc, const char* const* argv) {
  NodeConfig config;
  RawFlags raw;
  auto spin_us = static_cast<uint32_t>(config.spin / microseconds(1));
  CLI::App app(kDescription, "ember-store");
  app.footer(kFooter);
  app.set_version_flag("--version", "ember-store " EMBER_VERSION);
  app.add_option("--node-id", config.node_id, "Stable name of this node in the cluster")
      ->capture_default_str();
  app.add_option("--listen", raw.listen, "Data plane [127.0.0.1:7101]");
  app.add_option("--grpc", raw.grpc,
                 "Control: status and health over gRPC, or off [127.0.0.1:7201]");
  app.add_option("--admin", raw.admin, "HTTP: /metrics and /healthz, or off [127.0.0.1:7301]");
  app.add_option("--memory", raw.memory, "Cap of segment memory [512MiB]");
  app.add_option("--shards", config.shards,
                 "Threads, each with its part of the memory and a port of its own: --listen's and "
                 "the next ones")
      ->check(CLI::Range(1u, uint32_t{wire::kMaxShards}))
      ->capture_default_str();
  app.add_option("--eviction", config.eviction, "Which segments make room: lru, s3fifo or chain")
      ->check(CLI::IsMember(EvictionPolicyNames()))
      ->capture_default_str();
  app.add_flag("--prealloc", config.prealloc, "Take all of --memory at start");
  app.add_option("--data", raw.data,
                 "Folder of the disk tier; what is in it is served again after a restart [none: "
                 "memory only]");
  app.add_option("--disk", raw.disk, "Cap of what is kept in --data");
  app.add_option("--disk-write", raw.disk_write,
                 "When a segment goes to disk: through (when put), second-use, demotion (before it "
                 "leaves memory); a put that asks for the disk always does [through]");
  app.add_option("--scrub-rate", raw.scrub_rate,
                 "Bytes a second that are read back and checked in the background; 0: off [16MiB]");
  app.add_option("--cluster", config.cluster,
                 "Name of the cluster; a data directory of another one is refused");
  app.add_option("--ttl", raw.ttl,
                 "How long a segment may live: 30s, 10m, 24h, 7d; 0: for ever [0]");
  app.add_option("--namespace-ttl", raw.namespace_ttls,
                 "The same for one namespace, HEX=DURATION; repeatable");
  app.add_option("--max-segment", raw.max_segment,
                 "Largest payload accepted [64MiB, or what fits]");
  app.add_option("--peers", raw.peers,
                 "All nodes of the static cluster, this one too: id=host:port,...");
  app.add_option("--io", raw.io, "auto, uring or epoll: auto falls back to epoll [auto]");
  app.add_option("--shm", raw.shm,
                 "off, or trusted: clients of this user on this host map the memory and read it in "
                 "place. They can then read all tenants' segments [off]")
      ->check(CLI::IsMember({"off", "trusted"}));
  app.add_option("--shm-dir", raw.shm_dir,
                 "Folder of the sockets that hand the memory over [$XDG_RUNTIME_DIR, else /run, "
                 "$TMPDIR or /tmp]");
  app.add_option("--spin", spin_us,
                 "Microseconds that a shard's thread looks for work before it lets its processor "
                 "sleep, while that pays; 0: never")
      ->check(CLI::Range(0u, 1000u))
      ->capture_default_str();
  app.add_option("--log-level", config.log_level, "debug, info, warn, error or off")
      ->check(CLI::IsMember({"debug", "info", "warn", "error", "off"}))
      ->capture_default_str();
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForVersion& e) {
    return {.config = {}, .output = e.what(), .exit_code = 0};
  } catch (const CLI::CallForHelp&) {
    return {.config = {}, .output = app.help(), .exit_code = 0};
  } catch (const CLI::ParseError& e) {
    return Wrong(e.what());
  }
  if (Status status = Understand(raw, &config); !status.ok()) return Wrong(status.message());
  config.spin = microseconds(spin_us);
  return {.config = std::move(config), .output = {}, .exit_code = 0};
}

}  // namespace ember::kv
