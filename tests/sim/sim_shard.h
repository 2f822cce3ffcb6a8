// SimShard: one shard of a simulated node as production wires it: memory, engine and data server on
// one loop.
//
// Concurrency: the simulation's thread. Life: Stop it before it dies.
#pragma once

#include <memory>

#include "client/io/gate.h"
#include "kvstore/memory/arena.h"
#include "kvstore/server/data_server.h"
#include "tests/sim/sim_loop.h"
#include "tests/sim/sim_wall_clock.h"

namespace ember::sim {

struct SimShardOptions {
  uint64_t memory_bytes = 512 << 10;
  kv::EngineOptions engine;
  kv::DataServerOptions server;  // its address is the loop's
};

class SimShard {
 public:
  SimShard(std::shared_ptr<Simulation> simulation, SimLoopOptions loop, SimShardOptions options);
  ~SimShard();

  io::Endpoint endpoint() const { return {loop_.address(), server_->port()}; }
  SimLoop& loop() { return loop_; }
  kv::ShardEngine& engine() { return *engine_; }
  kv::DataServer& server() { return *server_; }
  kv::Arena& arena() { return *arena_; }
  kv::EngineMetrics& metrics() { return engine_metrics_; }

  // In the orderly way; runs the simulation until it is done.
  void Stop(Duration grace);

 private:
  Simulation& simulation_;
  SimLoop loop_;
  SimWallClock wall_clock_;
  MetricsRegistry registry_;
  kv::EngineMetrics engine_metrics_;
  kv::ServerMetrics server_metrics_;
  std::unique_ptr<kv::Arena> arena_;
  std::unique_ptr<kv::ShardEngine> engine_;
  std::unique_ptr<kv::DataServer> server_;
  bool stopped_ = false;
};

}  // namespace ember::sim
