#include "tests/sim/sim_shard.h"

#include "kvstore/engine/lru_policy.h"

namespace ember::sim {

SimShard::SimShard(std::shared_ptr<Simulation> simulation, SimLoopOptions loop,
                   SimShardOptions options)
    : simulation_(*simulation),
      loop_(simulation, std::move(loop)),
      wall_clock_(simulation.get()),
      engine_metrics_(&registry_, {}),
      server_metrics_(&registry_, {}),
      arena_(*kv::Arena::Make(options.memory_bytes, false)),
      engine_(std::make_unique<kv::ShardEngine>(
          options.engine, arena_.get(), std::make_unique<kv::LruPolicy>(), &loop_, &wall_clock_,
          &simulation_.dice(), &engine_metrics_)) {
  options.server.listen = {loop_.address(), 0};
  options.server.node_id = "s1";
  options.server.incarnation = simulation_.dice().Next() | 1;
  server_ = *kv::DataServer::Listen(&loop_, engine_.get(), /*disk=*/nullptr, &server_metrics_,
                                    std::move(options.server));
  server_->Serve();
}

SimShard::~SimShard() { EMBER_CHECK(stopped_, "a shard is stopped before it dies"); }

void SimShard::Stop(Duration grace) {
  stopped_ = true;
  io::Gate gate;
  gate.Spawn([](kv::DataServer& server, Duration grace) -> io::Task<void> {
    (void)co_await server.Stop(grace);
  }(*server_, grace));
  EMBER_CHECK(simulation_.RunUntil([&] { return gate.running() == 0; }, std::chrono::hours(1)),
              "the server does not stop");
  server_.reset();
  loop_.Stop();
  EMBER_CHECK(simulation_.RunUntil([&] { return loop_.ended(); }, seconds(1)),
              "the loop does not end");
}

}  // namespace ember::sim
