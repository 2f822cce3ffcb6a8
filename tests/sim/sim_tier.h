// SimTier: one run of one shard with its disk tier, from a start to an orderly end or a loss of
// power: engine, memory and tier as production wires them, on a simulated loop, disk and catalog.
//
// Concurrency: the simulation's thread. Life: Stop or LosePower before it dies; the disk and the
// catalog outlive it.
#pragma once

#include <functional>
#include <memory>

#include "client/io/gate.h"
#include "kvstore/disk/disk_tier.h"
#include "kvstore/memory/arena.h"
#include "tests/sim/sim_catalog.h"
#include "tests/sim/sim_disk.h"
#include "tests/sim/sim_loop.h"
#include "tests/sim/sim_wall_clock.h"

namespace ember::sim {

struct SimTierOptions {
  std::string address = "127.0.0.1";  // its host
  uint64_t memory_bytes = 256 << 10;
  kv::EngineOptions engine;
  kv::DiskOptions disk;
};

class SimTier {
 public:
  SimTier(std::shared_ptr<Simulation> simulation, std::shared_ptr<SimDisk> disk,
          SimCatalog* catalog, const SimWallClock* wall_clock, SimTierOptions options);
  ~SimTier();

  // Opens what is on the disk; runs the simulation until it is done. Once. `meanwhile`, if any, is
  // called when that has begun, and may run the simulation, too.
  Status Start(const std::function<void()>& meanwhile = nullptr);
  // In the orderly way, after whoever uses it has ended.
  void Stop(Duration grace);

  kv::ShardEngine& engine() { return *engine_; }
  kv::DiskTier& tier() { return *tier_; }
  kv::Arena& arena() { return *arena_; }
  kv::DiskMetrics& disk_metrics() { return disk_metrics_; }
  SimLoop& loop() { return loop_; }

 private:
  io::Task<Status> Open();

  Simulation& simulation_;
  SimLoop loop_;
  const SimTierOptions options_;
  const SimWallClock* const wall_clock_;
  const std::unique_ptr<kv::Catalog> catalog_;
  MetricsRegistry registry_;
  kv::EngineMetrics engine_metrics_;
  kv::DiskMetrics disk_metrics_;
  std::unique_ptr<kv::Arena> arena_;
  std::unique_ptr<kv::ShardEngine> engine_;
  std::unique_ptr<kv::DiskTier> tier_;
};

}  // namespace ember::sim
