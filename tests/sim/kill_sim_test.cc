// A process that is killed, and then a loss of power: what the next run found in the page cache is
// not durable because it was found.
#include <gtest/gtest.h>
#include <spdlog/spdlog.h>

#include "tests/sim/seeds.h"
#include "tests/sim/sim_tier.h"
#include "tests/unit/kvstore/test_segments.h"

namespace ember::sim {
namespace {

using kv::testing::KeyOf;
using kv::testing::MakeSegment;

constexpr uint64_t kCount = 20;
constexpr Duration kPatience = std::chrono::hours(1);

class KilledNode {
 public:
  explicit KilledNode(uint64_t seed)
      : simulation_(std::make_shared<Simulation>(seed)),
        disk_(std::make_shared<SimDisk>(simulation_.get())),
        catalog_(simulation_.get(), &disk_->injected),
        wall_clock_(simulation_.get()) {
    options_.memory_bytes = 1 << 20;
    options_.disk.directory = "/data";
    options_.disk.identity = {.cluster = "c", .node = "s1", .shards = 1};
    options_.disk.region_bytes = 256 << 10;
    options_.disk.capacity_bytes = 4 << 20;
    options_.disk.min_free_bytes = 0;
    options_.disk.policy = kv::WritePolicy::kThrough;
    options_.disk.sync_interval = std::chrono::hours(1);
    options_.disk.scrub_bytes_per_second = 0;
  }

  // Runs `work`, then ends the process or loses the power, whatever is still under way.
  void Run(bool power, const std::function<void(SimTier*)>& work) {
    SimTier run(simulation_, disk_, &catalog_, &wall_clock_, options_);
    ASSERT_TRUE(run.Start().ok());
    work(&run);
    power ? disk_->LosePower() : disk_->EndProcess();
    power ? catalog_.LosePower() : catalog_.EndProcess();
    Await();
    run.Stop(Duration::zero());
  }
  void Put(SimTier* run, uint64_t number) {
    const auto segment = MakeSegment(number, 20000);
    const auto reserved = run->engine().Reserve(1, segment.encoded_header);
    ASSERT_EQ(reserved.code, StatusCode::kOk);
    {
      auto grant = run->engine().BeginWrite(1, reserved.token, 0, segment.payload.size());
      ASSERT_TRUE(grant.ok());
      std::ranges::copy(segment.payload, grant->remaining().begin());
      grant->Advance(segment.payload.size());
    }
    ASSERT_EQ(run->engine().Commit(1, reserved.token), StatusCode::kOk);
  }
  void Await() {
    ASSERT_TRUE(simulation_->RunUntil([&] { return gate_.running() == 0; }, kPatience));
  }
  std::vector<StatusCode> Persist(SimTier* run, const std::vector<BlockKey>& keys) {
    std::vector<StatusCode> codes;
    gate_.Spawn([](SimTier* run, std::vector<BlockKey> keys,
                   std::vector<StatusCode>* codes) -> io::Task<void> {
      *codes = co_await run->tier().Persist(std::move(keys));
    }(run, keys, &codes));
    Await();
    return codes;
  }
  // Does not wait for it.
  void BeginPurge(SimTier* run, const PurgeScope& scope) {
    run->engine().Purge(scope, 1);
    gate_.Spawn([](SimTier* run, PurgeScope scope) -> io::Task<void> {
      (void)co_await run->tier().RecordPurge(scope, 1);
    }(run, scope));
  }
  Simulation& simulation() { return *simulation_; }

 private:
  const std::shared_ptr<Simulation> simulation_;
  const std::shared_ptr<SimDisk> disk_;
  SimCatalog catalog_;
  SimWallClock wall_clock_;
  SimTierOptions options_;
  io::Gate gate_;
};

class KillSim : public ::testing::Test {
 protected:
  void SetUp() override {
    spdlog::set_level(Replaying() ? spdlog::level::info : spdlog::level::off);
  }
  void TearDown() override { spdlog::set_level(spdlog::level::info); }
};

TEST_F(KillSim, WhatTheNextRunFoundIsDurableOnceItSaysSo) {
  uint64_t found = 0;
  ForEachSeed(50, [&](uint64_t seed) {
    KilledNode node(seed);
    node.Run(/*power=*/false, [&](SimTier* run) {
      for (uint64_t number = 0; number < kCount; ++number) node.Put(run, number);
      node.simulation().RunFor(seconds(1));
    });
    std::vector<BlockKey> keys;
    for (uint64_t number = 0; number < kCount; ++number) keys.push_back(KeyOf(number));
    std::vector<StatusCode> codes;
    node.Run(/*power=*/true, [&](SimTier* run) { codes = node.Persist(run, keys); });
    node.Run(/*power=*/true, [&](SimTier* run) {
      for (uint64_t number = 0; number < kCount; ++number) {
        if (codes[number] != StatusCode::kOk) continue;
        ++found;
        EXPECT_NE(run->engine().disk().Find(keys[number]), nullptr) << number;
      }
    });
  });
  if (!Replaying()) EXPECT_GE(found, 500u);
}

TEST_F(KillSim, APurgeThatTheNextRunFoundIsNotForgotten) {
  uint64_t purged = 0;
  uint64_t forgotten = 0;
  ForEachSeed(100, [&](uint64_t seed) {
    KilledNode node(seed);
    const BlockKey key = KeyOf(1);
    node.Run(/*power=*/false, [&](SimTier* run) {
      node.Put(run, 1);
      ASSERT_EQ(node.Persist(run, {key}), std::vector{StatusCode::kOk});
      node.BeginPurge(run, PurgeScope::OfNamespace(key.ns));
      node.simulation().RunFor(
          node.simulation().dice().Between(microseconds(0), microseconds(600)));
    });
    bool there = false;
    node.Run(/*power=*/true,
             [&](SimTier* run) { there = run->engine().disk().Find(key) != nullptr; });
    node.Run(/*power=*/true,
             [&](SimTier* run) { EXPECT_EQ(run->engine().disk().Find(key) != nullptr, there); });
    ++(there ? forgotten : purged);
  });
  if (Replaying()) return;
  EXPECT_GT(purged, 10u);
  EXPECT_GT(forgotten, 10u);
}

}  // namespace
}  // namespace ember::sim
