#include "kvstore/node.h"

#include <spdlog/spdlog.h>

#include <future>

#include "kvstore/disk/data_directory.h"

namespace ember::kv {
namespace {

EngineOptions OptionsOfEngine(const NodeConfig& config) {
  EngineOptions options;
  options.max_segment_bytes = config.max_segment_bytes;
  options.max_attempts = wire::kMaxAttempts;
  options.max_leases = wire::kMaxLeases;
  options.max_lease = milliseconds(wire::kMaxLeaseMs);
  options.attempt_deadline = milliseconds(wire::kAttemptDeadlineMs);
  options.ttl = config.ttl;
  return options;
}

}  // namespace

Result<std::unique_ptr<Node>> Node::Start(const NodeConfig& config,
                                          const CatalogMaker& make_catalog) {
  spdlog::debug("starting node={} shards={}", config.node_id, config.shards);
  std::unique_ptr<Node> node(new Node(config));
  EMBER_RETURN_IF_ERROR(node->MakeShards());
  if (config.disk) EMBER_RETURN_IF_ERROR(node->OpenDisk(make_catalog).WithContext("--data"));
  EMBER_RETURN_IF_ERROR(node->OpenDoor().WithContext("--shm-dir"));
  EMBER_RETURN_IF_ERROR(node->Listen().WithContext("--listen"));
  return node;
}

Node::Node(const NodeConfig& config) : config_(config), started_at_(SteadyClock().Now()) {
  SystemRandom random;
  while (incarnation_ == 0) incarnation_ = random.Next();
}

Node::~Node() { Stop(Duration::zero()); }

Status Node::MakeShards() {
  for (uint32_t i = 0; i < config_.shards; ++i) {
    const ShardOptions options{.number = i,
                               .memory_bytes = config_.memory_bytes / config_.shards,
                               .prealloc = config_.prealloc,
                               .eviction = config_.eviction,
                               .engine = OptionsOfEngine(config_),
                               .backend = config_.backend,
                               .spin = config_.spin};
    Result<std::unique_ptr<Shard>> shard = Shard::Make(options, &registry_);
    if (!shard.ok()) return shard.status();
    for (const auto& [ns, ttl] : config_.namespace_ttls) {
      EMBER_RETURN_IF_ERROR((*shard)->SetTtl(ns, ttl).WithContext("--namespace-ttl"));
    }
    shards_.push_back(*std::move(shard));
  }
  return OkStatus();
}

Status Node::OpenDoor() {
  if (!config_.shm_dir) return OkStatus();
  std::vector<SharedArena> arenas;
  for (const auto& shard : shards_) {
    Result<SharedArena> arena = shard->ShareMemory();
    if (!arena.ok()) return arena.status();
    arenas.push_back(*std::move(arena));
  }
  Result<std::unique_ptr<ArenaDoor>> door = ArenaDoor::Open(
      {*config_.shm_dir, config_.node_id, incarnation_}, std::move(arenas), &registry_);
  if (!door.ok()) return door.status();
  door_ = *std::move(door);
  return OkStatus();
}

Status Node::Listen() {
  DataServerOptions options;
  options.node_id = config_.node_id;
  options.incarnation = incarnation_;
  if (config_.peers) {
    options.view_number = config_.peers->number;
    options.members = config_.peers->members;
  }
  std::vector<uint16_t> ports;
  for (const auto& shard : shards_) {
    options.listen = config_.listen;
    options.shard = static_cast<uint32_t>(ports.size());
    if (config_.listen.port != 0) options.listen.port += options.shard;
    if (door_ != nullptr) options.shm_path = door_->path(options.shard);
    EMBER_RETURN_IF_ERROR(shard->Listen(options));
    ports.push_back(shard->port());
    // A node without a list is a cluster of one, at the address of its first shard.
    if (options.members.empty()) {
      options.members = {{.id = options.node_id, .host = options.listen.host, .port = ports[0]}};
    }
  }
  data_address_ = io::Endpoint{config_.listen.host, ports[0]}.ToString();
  for (const auto& shard : shards_) EMBER_RETURN_IF_ERROR(shard->Serve(ports));
  return OkStatus();
}

Status Node::OpenDisk(const CatalogMaker& make_catalog) {
  const std::string& directory = config_.disk->directory;
  Result<std::unique_ptr<DirectoryLock>> lock = DirectoryLock::Take(directory);
  if (!lock.ok()) return lock.status();
  directory_lock_ = *std::move(lock);
  DiskOptions options{
      .directory = directory,
      .identity = {config_.cluster, config_.node_id, config_.shards},
      .capacity_bytes = config_.disk->capacity_bytes / config_.shards,
      .policy = config_.disk->policy,
      .scrub_bytes_per_second = config_.disk->scrub_bytes_per_second / config_.shards};
  const Result<uint64_t> region_bytes =
      RegionBytesFor(options.capacity_bytes, config_.max_segment_bytes + kMaxSegmentHeaderBytes);
  if (!region_bytes.ok()) return region_bytes.status();
  options.region_bytes = *region_bytes;
  io::Loop& loop = shards_.front()->loop();
  EMBER_RETURN_IF_ERROR(io::RunOnLoop<Status>(
      loop, [&] { return PrepareDirectory(&loop.files(), directory, options.identity); }));
  std::string lost;
  Result<std::unique_ptr<Catalog>> catalog = make_catalog(CatalogFolder(directory), &lost);
  if (!catalog.ok()) return catalog.status();
  if (!lost.empty()) {
    spdlog::warn("catalog lost, the regions are read instead reason=\"{}\"", lost);
  }
  catalog_ = *std::move(catalog);
  disk_metrics_ = std::make_unique<DiskMetrics>(&registry_);
  std::vector<std::future<Status>> opening;
  for (const auto& shard : shards_) {
    options.shard = static_cast<uint32_t>(opening.size());
    opening.push_back(std::async(std::launch::async, [this, &shard, options] {
      return shard->OpenDisk(options, catalog_.get(), disk_metrics_.get());
    }));
  }
  Status status;
  for (auto& opened : opening) {
    if (Status one = opened.get(); !one.ok()) status = one;
  }
  return status;
}

std::vector<ShardDoor> Node::doors() const {
  std::vector<ShardDoor> doors;
  for (const auto& shard : shards_) doors.push_back(shard->door());
  return doors;
}

bool Node::alive() const {
  return std::ranges::all_of(shards_, [](const auto& shard) { return shard->alive(); });
}

// At once, so that the grace is one for all.
void Node::Stop(Duration grace, Duration flush_grace) {
  std::vector<std::future<void>> stopping;
  for (const auto& shard : shards_) {
    stopping.push_back(std::async(std::launch::async, [&] { shard->Stop(grace, flush_grace); }));
  }
}

Result<NodeStatus> Node::GetStatus(Duration timeout) {
  NodeStatus status{
      .node_id = config_.node_id,
      .incarnation = incarnation_,
      .uptime_seconds = std::chrono::duration<double>(SteadyClock().Now() - started_at_).count(),
      .data_address = data_address_,
      .io_backend = std::string(io_backend())};
  const TimePoint deadline = SteadyClock().Now() + timeout;
  for (const auto& shard : shards_) {
    const Duration left = std::max(Duration::zero(), deadline - SteadyClock().Now());
    Result<ShardStatus> part = shard->GetStatus(left);
    if (!part.ok()) return part.status();
    status.total += *part;
    status.shards.push_back(*part);
  }
  status.shm_offered = door_ != nullptr;
  status.shm_clients = door_ != nullptr ? door_->clients() : 0;
  if (config_.peers) {
    status.view_number = config_.peers->number;
    status.members = config_.peers->members;
  } else {
    status.members = {
        {.id = config_.node_id, .host = config_.listen.host, .port = shards_[0]->port()}};
  }
  return status;
}

}  // namespace ember::kv
