#include "kvstore/shard.h"

namespace ember::kv {
namespace {

constexpr Duration kBeatInterval = milliseconds(250);
constexpr Duration kAliveWithin = seconds(3);

LatencyBuckets BucketsOf(const Histogram& histogram) {
  LatencyBuckets buckets{.bounds = histogram.bounds(), .counts = {}};
  uint64_t below = 0;
  for (size_t i = 0; i <= buckets.bounds.size(); ++i) {
    const uint64_t count = histogram.CumulativeCount(i);
    buckets.counts.push_back(count - std::exchange(below, count));
  }
  return buckets;
}

MetricLabels LabelsOf(uint32_t shard) { return {{"shard", std::to_string(shard)}}; }

}  // namespace

Result<std::unique_ptr<Shard>> Shard::Make(const ShardOptions& options, MetricsRegistry* metrics) {
  std::unique_ptr<Shard> shard(new Shard(options.number, metrics));
  EMBER_RETURN_IF_ERROR(shard->Open(options));
  return shard;
}

Shard::Shard(uint32_t number, MetricsRegistry* metrics)
    : number_(number),
      engine_metrics_(metrics, LabelsOf(number)),
      server_metrics_(metrics, LabelsOf(number)),
      reuse_watch_(&engine_metrics_, &server_metrics_.no_reuse, number),
      loop_lag_(metrics->AddGauge("ember_store_loop_lag_seconds",
                                  "How late the shard's thread came to its last beat",
                                  LabelsOf(number))),
      io_pending_(metrics->AddGauge("ember_store_io_pending",
                                    "Operations with the kernel at the shard's last beat",
                                    LabelsOf(number))),
      feed_(random_.Next(), &metrics->AddCounter("ember_store_feed_events_total",
                                                 "Segments stored, removed and purges, as numbered "
                                                 "for the feed's readers",
                                                 LabelsOf(number))) {}

Shard::~Shard() {
  Stop(Duration::zero(), Duration::zero());
  thread_.reset();  // nothing of what follows is used any more
}

Status Shard::Open(const ShardOptions& options) {
  Result<std::unique_ptr<Arena>> arena = Arena::Make(options.memory_bytes, options.prealloc);
  if (!arena.ok()) return arena.status().WithContext("--memory");
  Result<std::unique_ptr<io::LoopThread>> thread =
      io::LoopThread::Make(options.backend, &io_fallback_, options.spin);
  if (!thread.ok()) return thread.status().WithContext("--io");
  arena_ = *std::move(arena);
  thread_ = *std::move(thread);
  // The disk's reads and writes go straight to and from it. A refusal only costs speed.
  if (options.prealloc) {
    (void)io::RunOnLoop<Status>(thread_->loop(), [&]() -> io::Task<Status> {
      co_return thread_->loop().RegisterMemory(arena_->At({0, arena_->capacity()}));
    });
  }
  engine_ = std::make_unique<ShardEngine>(
      options.engine, arena_.get(), MakeEvictionPolicy(options.eviction, options.memory_bytes),
      &thread_->loop(), &wall_clock_, &random_, &engine_metrics_);
  engine_->SetObserver(&feed_);
  return OkStatus();
}

Status Shard::SetTtl(const NamespaceId& ns, Duration ttl) {
  return io::RunOnLoop<Status>(thread_->loop(),
                               [&]() -> io::Task<Status> { co_return engine_->SetTtl(ns, ttl); });
}

Status Shard::OpenDisk(const DiskOptions& options, Catalog* catalog, DiskMetrics* metrics) {
  return io::RunOnLoop<Status>(thread_->loop(), [&]() -> io::Task<Status> {
    Result<std::unique_ptr<DiskTier>> disk = co_await DiskTier::Open(
        &thread_->loop(), engine_.get(), catalog, &random_, &wall_clock_, metrics, options);
    if (!disk.ok()) co_return disk.status();
    disk_ = *std::move(disk);
    co_return OkStatus();
  });
}

Status Shard::Listen(DataServerOptions options) {
  return io::RunOnLoop<Status>(thread_->loop(), [&]() -> io::Task<Status> {
    Result<std::unique_ptr<DataServer>> server = DataServer::Listen(
        &thread_->loop(), engine_.get(), disk_.get(), &server_metrics_, std::move(options));
    if (!server.ok()) co_return server.status();
    server_ = *std::move(server);
    co_return OkStatus();
  });
}

Status Shard::Serve(std::vector<uint16_t> shard_ports) {
  return io::RunOnLoop<Status>(thread_->loop(), [&]() -> io::Task<Status> {
    server_->Serve(std::move(shard_ports));
    Beat();
    co_return OkStatus();
  });
}

void Shard::Beat() {
  const TimePoint now = thread_->loop().Now();
  last_beat_.store(now.time_since_epoch().count(), std::memory_order_relaxed);
  reuse_watch_.Look();
  io_pending_.Set(static_cast<double>(thread_->loop().pending_operations()));
  const TimePoint next = now + kBeatInterval;
  beat_timer_ = thread_->loop().StartTimer(next, [this, next] {
    loop_lag_.Set(std::chrono::duration<double>(thread_->loop().Now() - next).count());
    Beat();
  });
}

bool Shard::alive() const {
  const TimePoint last{Duration(last_beat_.load(std::memory_order_relaxed))};
  return SteadyClock().Now() - last < kAliveWithin;
}

Result<SharedArena> Shard::ShareMemory() {
  Result<int> memory = arena_->ShareReadOnly();
  if (!memory.ok()) return memory.status();
  return SharedArena{io::FileDescriptor(*memory), arena_->capacity()};
}

void Shard::Stop(Duration grace, Duration flush_grace) {
  if (std::exchange(stopped_, true) || thread_ == nullptr) return;
  (void)io::RunOnLoop<Status>(thread_->loop(), [&] { return StopOnLoop(grace, flush_grace); });
}

io::Task<Status> Shard::StopOnLoop(Duration grace, Duration flush_grace) {
  beat_timer_.reset();
  if (server_ != nullptr) (void)co_await server_->Stop(grace);
  if (disk_ != nullptr) co_await disk_->Close(flush_grace);
  co_return OkStatus();
}

Result<ShardStatus> Shard::GetStatus(Duration timeout) {
  auto promise = std::make_shared<std::promise<ShardStatus>>();
  std::future<ShardStatus> future = promise->get_future();
  thread_->loop().Post([this, promise] { promise->set_value(Describe()); });
  if (future.wait_for(timeout) != std::future_status::ready) {
    return DeadlineError("the thread of shard " + std::to_string(number_) + " does not answer");
  }
  try {
    return future.get();
  } catch (const std::future_error&) {
    return CancelledError("the node has stopped");
  }
}

ShardStatus Shard::Describe() const {
  ShardStatus status{.memory_capacity_bytes = arena_->capacity(),
                     .memory_used_bytes = arena_->used(),
                     .segments = engine_->segments(),
                     .hits = engine_metrics_.hits.value(),
                     .misses = engine_metrics_.TotalMisses(),
                     .evictions = engine_metrics_.evictions.value(),
                     .corruptions = engine_metrics_.corruptions.value(),
                     .connections = static_cast<uint32_t>(server_->connections()),
                     .bytes_in = server_metrics_.bytes_in.value(),
                     .bytes_out = server_metrics_.bytes_out.value(),
                     .leases = engine_->leases(),
                     .puts_open = engine_->attempts(),
                     .shm_gets = server_metrics_.shm_gets.value(),
                     .shm_bytes = server_metrics_.shm_bytes.value()};
  status.gets = BucketsOf(server_metrics_.get_seconds);
  if (disk_ != nullptr) {
    status.disk_capacity_bytes = disk_->capacity_bytes();
    status.disk_used_bytes = disk_->total_bytes();
    status.disk_segments = engine_->disk().size();
    status.disk_degraded = disk_->degraded();
  }
  return status;
}

}  // namespace ember::kv
