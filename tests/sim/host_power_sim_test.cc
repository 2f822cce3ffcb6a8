// A whole host loses its power again and again, with clients at work over the network: they see
// right bytes or a miss, and never miss what was acknowledged on disk.
#include <gtest/gtest.h>
#include <spdlog/spdlog.h>

#include "kvstore/server/data_server.h"
#include "tests/sim/kv_disk_map.h"
#include "tests/sim/seeds.h"
#include "tests/sim/sim_network.h"
#include "tests/sim/sim_tier.h"
#include "tests/sim/store_user.h"

namespace ember::sim {
namespace {

constexpr Duration kHostPatience = std::chrono::hours(10);
constexpr int kHostUsers = 3;

std::string UserAddress(int user) { return "10.0.1." + std::to_string(user); }

// A shard with its disk and its data server: one run of the node.
class NodeRun {
 public:
  static constexpr const char* kAddress = "10.0.0.1";
  static constexpr uint16_t kPort = 7001;

  NodeRun(const std::shared_ptr<Simulation>& simulation, std::shared_ptr<SimDisk> disk,
          SimCatalog* catalog, const SimWallClock* wall_clock, SimTierOptions options)
      : simulation_(*simulation),
        tier_(simulation, std::move(disk), catalog, wall_clock, std::move(options)),
        server_metrics_(&registry_, {}) {}

  Status Start() {
    EMBER_RETURN_IF_ERROR(tier_.Start());
    auto server =
        kv::DataServer::Listen(&tier_.loop(), &tier_.engine(), &tier_.tier(), &server_metrics_,
                               {.listen = {kAddress, kPort},
                                .node_id = "s1",
                                .incarnation = simulation_.dice().Next() | 1});
    if (!server.ok()) return server.status();
    server_ = *std::move(server);
    server_->Serve();
    return OkStatus();
  }
  void Stop(Duration grace) {
    io::Gate gate;
    gate.Spawn([](kv::DataServer& server, Duration grace) -> io::Task<void> {
      (void)co_await server.Stop(grace);
    }(*server_, grace));
    EMBER_CHECK(simulation_.RunUntil([&] { return gate.running() == 0; }, kHostPatience),
                "the server does not stop");
    server_.reset();
    tier_.Stop(grace);
  }
  uint64_t disk_hits() { return tier_.disk_metrics().hits.value(); }

 private:
  Simulation& simulation_;
  SimTier tier_;
  MetricsRegistry registry_;
  kv::ServerMetrics server_metrics_;
  std::unique_ptr<kv::DataServer> server_;
};

class HostHistory {
 public:
  explicit HostHistory(uint64_t seed)
      : simulation_(std::make_shared<Simulation>(seed)),
        disk_(std::make_shared<SimDisk>(simulation_.get(), std::make_shared<KvDiskMap>())),
        catalog_(simulation_.get(), &disk_->injected),
        wall_clock_(simulation_.get()) {
    Dice& dice = simulation_->dice();
    options_.address = NodeRun::kAddress;
    options_.memory_bytes = 384 << 10;
    options_.engine = {.max_segment_bytes = 64 << 10};
    options_.disk = {.directory = "/data",
                     .identity = {.cluster = "c", .node = "s1", .shards = 1},
                     .capacity_bytes = 8 << 20,
                     .region_bytes = 256 << 10,
                     .sync_interval = milliseconds(dice.Between(5, 200)),
                     .retry_interval = milliseconds(100),
                     .scrub_bytes_per_second = dice.Chance(0.5) ? 16u << 20 : 0,
                     .min_free_bytes = 0};
    NetworkFaults& faults = simulation_->network().faults;
    const double level = std::array{0.0, 0.001, 0.01}[dice.Below(3)];
    faults.reset = faults.half_open = faults.stall = faults.refused = level;
  }

  void Run(int cuts) {
    std::vector<std::unique_ptr<SimLoop>> loops;
    std::vector<std::unique_ptr<StoreUser>> users;
    io::Gate gate;
    bool stop = false;
    for (int i = 0; i < kHostUsers; ++i) {
      loops.push_back(
          std::make_unique<SimLoop>(simulation_, SimLoopOptions{.address = UserAddress(i)}));
      users.push_back(std::make_unique<StoreUser>(
          loops.back().get(), &model_,
          StoreUserOptions{.shards = {{NodeRun::kAddress, NodeRun::kPort}},
                           .operations = 1'000'000,
                           .ack = AckLevel::kDisk}));
      gate.Spawn(users.back()->Run(&stop));
    }
    for (int i = 0; i <= cuts && !testing::Test::HasFailure(); ++i) {
      NodeRun run(simulation_, disk_, &catalog_, &wall_clock_, options_);
      const Status started = run.Start();
      ASSERT_TRUE(started.ok()) << started.ToString();
      for (int user = 0; user < kHostUsers; ++user) {
        simulation_->network().Join(NodeRun::kAddress, UserAddress(user));
      }
      simulation_->RunFor(simulation_->dice().Between(milliseconds(1), milliseconds(700)));
      const bool last = i == cuts;
      if (last) {
        stop = true;
        EXPECT_TRUE(simulation_->RunUntil([&] { return gate.running() == 0; }, kHostPatience))
            << "a user hangs";
      } else {
        LosePower();
      }
      run.Stop(last ? seconds(100) : Duration::zero());
      disk_hits_ += run.disk_hits();
      simulation_->RunFor(simulation_->dice().Between(milliseconds(0), seconds(2)));
    }
    stop = true;
    EMBER_CHECK(simulation_->RunUntil([&] { return gate.running() == 0; }, kHostPatience),
                "a user hangs");
    for (auto& loop : loops) loop->Stop();
    simulation_->RunFor(seconds(1));
  }
  const StoreModel& model() const { return model_; }
  SimDisk& disk() { return *disk_; }
  uint64_t disk_hits() const { return disk_hits_; }

 private:
  // What was running goes on, and nobody hears of it.
  void LosePower() {
    for (int user = 0; user < kHostUsers; ++user) {
      simulation_->network().Cut(NodeRun::kAddress, UserAddress(user));
    }
    simulation_->network().LosePower(NodeRun::kAddress);
    disk_->LosePower();
    catalog_.LosePower();
  }

  const std::shared_ptr<Simulation> simulation_;
  const std::shared_ptr<SimDisk> disk_;
  SimCatalog catalog_;
  SimWallClock wall_clock_;
  SimTierOptions options_;
  StoreModel model_;
  uint64_t disk_hits_ = 0;
};

TEST(HostPowerSim, ClientsNeverMissWhatWasAcknowledgedOnDisk) {
  spdlog::set_level(Replaying() ? spdlog::level::info : spdlog::level::off);
  constexpr int kCuts = 5;
  uint64_t durable = 0;
  uint64_t hits = 0;
  uint64_t disk_hits = 0;
  ForEachSeed(Scaled(100), [&](uint64_t seed) {
    HostHistory history(seed);
    history.Run(kCuts);
    durable += history.model().durable.size();
    hits += history.model().hits;
    disk_hits += history.disk_hits();
  });
  spdlog::set_level(spdlog::level::info);
  if (Replaying() || testing::Test::HasFailure()) return;
  EXPECT_GE(durable, Scaled(3000));
  EXPECT_GE(hits, Scaled(200'000));
  EXPECT_GE(disk_hits, Scaled(50'000));
}

}  // namespace
}  // namespace ember::sim
