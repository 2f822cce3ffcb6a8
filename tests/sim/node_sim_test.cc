// A node's engine and server code with clients in one simulation, under network faults: right bytes
// or a miss, leases that hold, and everything given back at the end.
#include <gtest/gtest.h>
#include <spdlog/spdlog.h>

#include "tests/sim/seeds.h"
#include "tests/sim/sim_network.h"
#include "tests/sim/sim_shard.h"
#include "tests/sim/store_user.h"

namespace ember::sim {
namespace {

constexpr int kShards = 2;
constexpr int kUsers = 3;

class NodeHistory {
 public:
  explicit NodeHistory(uint64_t seed) : simulation_(std::make_shared<Simulation>(seed)) {
    Dice& dice = simulation_->dice();
    SimShardOptions options;
    options.engine = {.max_segment_bytes = 64 << 10, .max_attempts = 12, .max_leases = 10};
    options.server.idle_timeout = seconds(60);
    options.server.max_connections = dice.Chance(0.2) ? 4 : 100;
    for (int i = 0; i < kShards; ++i) {
      shards_.push_back(
          std::make_unique<SimShard>(simulation_, SimLoopOptions{.address = "10.0.0.1"}, options));
    }
  }

  uint64_t Run() {
    DrawFaults();
    RunUsers();
    simulation_->network().faults = NetworkFaults();
    if (cut_) simulation_->network().Join("10.0.0.1", "10.0.1.0");
    ExpectServed();
    ExpectEverythingReleased();
    for (auto& shard : shards_) shard->Stop(seconds(2));
    return simulation_->trace();
  }
  const StoreModel& model() const { return model_; }
  NetworkFaultCount& faults() { return simulation_->network().injected; }

 private:
  // From a quiet network to a terrible one.
  void DrawFaults() {
    Dice& dice = simulation_->dice();
    NetworkFaults& faults = simulation_->network().faults;
    const double level = std::array{0.0, 0.001, 0.01, 0.05}[dice.Below(4)];
    faults.reset = level;
    faults.half_open = level / 4;
    faults.stall = level;
    faults.stall_max = seconds(30);
    faults.refused = level;
    faults.busy_accept = level;
    if (dice.Chance(0.3)) faults.buffer_max = faults.buffer_min;
    if (dice.Chance(0.3)) faults.piece_max = 700;
    if (dice.Chance(0.3)) faults.delay_max = milliseconds(20);
  }

  void RunUsers() {
    std::vector<io::Endpoint> endpoints;
    for (auto& shard : shards_) endpoints.push_back(shard->endpoint());
    std::vector<std::unique_ptr<SimLoop>> loops;
    std::vector<std::unique_ptr<StoreUser>> users;
    io::Gate gate;
    const bool stop = false;
    for (int i = 0; i < kUsers; ++i) {
      loops.push_back(std::make_unique<SimLoop>(
          simulation_, SimLoopOptions{.address = "10.0.1." + std::to_string(i)}));
      users.push_back(std::make_unique<StoreUser>(loops.back().get(), &model_,
                                                  StoreUserOptions{.shards = endpoints}));
      gate.Spawn(users.back()->Run(&stop));
    }
    if (simulation_->dice().Chance(0.2)) {
      cut_ = true;
      simulation_->After(milliseconds(simulation_->dice().Below(200)), nullptr,
                         [&] { simulation_->network().Cut("10.0.0.1", "10.0.1.0"); });
    }
    ASSERT_TRUE(simulation_->RunUntil([&] { return gate.running() == 0; }, std::chrono::hours(10)))
        << "a user hangs";
    for (auto& loop : loops) loop->Stop();
    simulation_->RunFor(seconds(1));
  }

  // A new client, at once.
  void ExpectServed() {
    SimLoop loop(simulation_, {.address = "10.0.2.1"});
    Status status = InternalError("pending");
    io::Gate gate;
    // Connections that faults left half-open may hold all there are, until they are found out.
    simulation_->RunFor(seconds(200));
    gate.Spawn([](SimLoop& loop, io::Endpoint endpoint, Status* out) -> io::Task<void> {
      auto connection = co_await cluster::Connection::Dial(
          loop,
          {.endpoint = std::move(endpoint), .client_name = "new", .timeout = milliseconds(100)});
      if (!connection.ok()) {
        *out = connection.status();
        co_return;
      }
      const uint64_t id = (*connection)->NextRequestId();
      *out = co_await (*connection)->Send(wire::FrameType::kPing, id, {});
      if (out->ok()) {
        *out = (co_await (*connection)->ReadReply(wire::FrameType::kPong, id)).status();
      }
    }(loop, shards_[0]->endpoint(), &status));
    EXPECT_TRUE(simulation_->RunUntil([&] { return gate.running() == 0; }, seconds(1)));
    EXPECT_TRUE(status.ok()) << status.ToString();
  }

  void ExpectEverythingReleased() {
    for (auto& shard : shards_) {
      EXPECT_TRUE(
          simulation_->RunUntil([&] { return shard->server().connections() == 0; }, seconds(300)));
      kv::ShardEngine& engine = shard->engine();
      EXPECT_EQ(engine.attempts(), 0u);
      EXPECT_EQ(engine.leases(), 0u);
      EXPECT_EQ(engine.pinned(), 0u);
      EXPECT_EQ(engine.reserved_bytes(), 0u);
      uint64_t bytes = 0;
      for (uint64_t number = 0; number < model_.keys; ++number) {
        auto found = engine.Get(kv::testing::KeyOf(number));
        if (found.miss != MissReason::kNone) continue;
        model_.Check(number, found.pin.header(), 0, found.pin.payload());
        bytes +=
            shard->arena().RoundedLength(found.pin.payload().size() + found.pin.header().size());
      }
      EXPECT_EQ(bytes, shard->arena().used()) << "memory that belongs to no segment";
    }
  }

  std::shared_ptr<Simulation> simulation_;
  std::vector<std::unique_ptr<SimShard>> shards_;
  StoreModel model_;
  bool cut_ = false;
};

class NodeSim : public ::testing::Test {
 protected:
  void SetUp() override { spdlog::set_level(spdlog::level::err); }
  void TearDown() override { spdlog::set_level(spdlog::level::info); }
};

TEST_F(NodeSim, PutsAndGetsUnderNetworkFaults) {
  uint64_t stored = 0;
  uint64_t hits = 0;
  uint64_t faults = 0;
  ForEachSeed(Scaled(400), [&](uint64_t seed) {
    NodeHistory history(seed);
    history.Run();
    stored += history.model().stored;
    hits += history.model().hits;
    faults += history.faults().total();
  });
  if (Replaying() || HasFailure()) return;
  EXPECT_GE(stored, Scaled(10'000));
  EXPECT_GE(hits, Scaled(40'000));
  EXPECT_GE(faults, Scaled(10'000));
}

TEST_F(NodeSim, ASeedRepeatsTheHistoryOfANode) {
  for (uint64_t seed = 1000; seed < 1010; ++seed) {
    EXPECT_EQ(NodeHistory(seed).Run(), NodeHistory(seed).Run()) << "seed " << seed;
  }
}

}  // namespace
}  // namespace ember::sim
