// Shard: one thread of the node, and everything that it alone touches: loop, memory, engine, data
// server on a port of its own. A segment belongs to one shard, by its placement group
// (cluster::ShardOf), and clients connect to that shard; so shards share nothing.
//
// Concurrency: the methods are for any thread but the shard's; what `loop()` and `engine()` give is
// used on the shard's thread, by io::RunOnLoop or Post.
// Life: the destructor stops without grace.
#pragma once

#include <atomic>
#include <memory>

#include "client/io/sync.h"
#include "kvstore/disk/disk_tier.h"
#include "kvstore/engine/engine_metrics.h"
#include "kvstore/memory/arena.h"
#include "kvstore/server/arena_door.h"
#include "kvstore/server/data_server.h"
#include "kvstore/server/node_status.h"
#include "kvstore/server/reuse_watch.h"
#include "kvstore/server/shard_door.h"

namespace ember::kv {

struct ShardOptions {
  uint32_t number = 0;
  uint64_t memory_bytes = 0;
  bool prealloc = false;
  std::string eviction{kDefaultEviction};
  EngineOptions engine;
  io::Backend backend = io::Backend::kAuto;
  Duration spin{};  // as io::Loop::set_spin
};

class Shard {
 public:
  // Takes the memory and starts the thread. `metrics` outlives it.
  static Result<std::unique_ptr<Shard>> Make(const ShardOptions& options, MetricsRegistry* metrics);
  ~Shard();

  // How long segments of the namespace may live; zero = for ever.
  Status SetTtl(const NamespaceId& ns, Duration ttl);
  // Takes up what is in the shard's folder. Before Serve; what is passed in outlives the shard.
  Status OpenDisk(const DiskOptions& options, Catalog* catalog, DiskMetrics* metrics);
  // Binds the port: clients queue up. Then Serve, once the ports of all shards are known.
  Status Listen(DataServerOptions options);
  Status Serve(std::vector<uint16_t> shard_ports);
  // Takes no new connection, answers what has arrived within `grace`, then writes what is not on
  // disk yet within `flush_grace`. Idempotent.
  void Stop(Duration grace, Duration flush_grace);

  // Asked of the shard's thread: kDeadline when it does not answer in time.
  Result<ShardStatus> GetStatus(Duration timeout);
  // Whether its thread has come round within the last seconds. Never waits.
  bool alive() const;

  // For readers in other processes; see Arena::ShareReadOnly.
  Result<SharedArena> ShareMemory();

  uint16_t port() const { return server_->port(); }
  std::string_view io_backend() const { return thread_->loop().backend(); }
  // Why io_uring was not taken, when that was left to us; else empty.
  const std::string& io_fallback() const { return io_fallback_; }
  io::Loop& loop() { return thread_->loop(); }
  ShardEngine& engine() { return *engine_; }
  // For the control plane's threads.
  ShardDoor door() {
    return {.number = number_,
            .loop = &loop(),
            .engine = engine_.get(),
            .disk = disk_.get(),
            .feed = &feed_};
  }

 private:
  Shard(uint32_t number, MetricsRegistry* metrics);
  Status Open(const ShardOptions& options);
  io::Task<Status> StopOnLoop(Duration grace, Duration flush_grace);
  void Beat();
  ShardStatus Describe() const;

  const uint32_t number_;
  EngineMetrics engine_metrics_;
  ServerMetrics server_metrics_;
  ReuseWatch reuse_watch_;
  SystemRandom random_;
  SystemWallClock wall_clock_;
  Gauge& loop_lag_;
  Gauge& io_pending_;
  FeedLog feed_;
  std::string io_fallback_;
  std::unique_ptr<Arena> arena_;
  std::unique_ptr<ShardEngine> engine_;
  std::unique_ptr<DiskTier> disk_;
  std::unique_ptr<DataServer> server_;
  std::unique_ptr<io::Loop::Timer> beat_timer_;
  std::atomic<int64_t> last_beat_{0};  // nanoseconds of the monotonic clock
  bool stopped_ = false;
  std::unique_ptr<io::LoopThread> thread_;  // everything above is used on it
};

}  // namespace ember::kv
