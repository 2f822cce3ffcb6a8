// The disk tier in simulation: power cuts in the middle of everything, disks that lie, purges and
// lives that stay ended.
#include <gtest/gtest.h>

#include <spdlog/spdlog.h>

#include "tests/sim/seeds.h"
#include "tests/sim/tier_history.h"

namespace ember::sim {
namespace {

class DiskTierSim : public ::testing::Test {
 protected:
  void SetUp() override {
    spdlog::set_level(Replaying() ? spdlog::level::info : spdlog::level::off);
  }
  void TearDown() override { spdlog::set_level(spdlog::level::info); }
};

// C9, C12: at level "disk" nothing that was acknowledged is lost when the power goes at any moment;
// P3: what was purged stays away; C8: no space without an owner.
TEST_F(DiskTierSim, PowerCuts) {
  constexpr int kRounds = 10;
  TierHistory::Totals totals;
  ForEachSeed(Scaled(150), [&](uint64_t seed) {
    TierHistory history(seed, {.purge = 0.02});
    Dice& dice = history.simulation().dice();
    for (int round = 0; round < kRounds && !HasFailure(); ++round) {
      if (dice.Chance(0.1)) history.catalog().Lose();
      history.Run(dice.Chance(0.15)  ? RunEnd::kKill
                  : dice.Chance(0.2) ? RunEnd::kPowerCutAtStart
                  : dice.Chance(0.1) ? RunEnd::kOrderly
                                     : RunEnd::kPowerCut);
    }
    if (!HasFailure()) history.Run(RunEnd::kOrderly);
    totals += history.totals();
  });
  if (Replaying() || HasFailure()) return;
  EXPECT_GE(totals.power_cuts, Scaled(1000));
  EXPECT_GE(totals.power_cuts_at_start, Scaled(200));
  EXPECT_GE(totals.power_cuts_in_purges, Scaled(200));
  EXPECT_GE(totals.kills, Scaled(200));
  EXPECT_GE(totals.durable, Scaled(20'000));
  EXPECT_GE(totals.acknowledged_at_starts, Scaled(15'000));
  EXPECT_GE(totals.purges, Scaled(1000));
  EXPECT_GE(totals.purged, Scaled(10'000));
}

// Every kind of lie, over everything but the two small files whose loss costs all: right bytes, or
// a miss and the copy is gone.
TEST_F(DiskTierSim, ADiskThatLies) {
  DiskFaultCount injected;
  TierHistory::Totals totals;
  ForEachSeed(Scaled(220), [&](uint64_t seed) {
    TierHistory history(seed, {.operations = 100});
    history.model().lossy = true;
    Dice& dice = history.simulation().dice();
    DiskFaults& faults = history.disk().faults;
    faults.Spare(DiskTarget::kJournal);
    faults.Spare(DiskTarget::kIdentity);
    for (int round = 0; round < 4 && !HasFailure(); ++round) {
      faults.slow_max = milliseconds(300);
      for (auto [fault, most] : {std::pair{DiskFault::kReadError, 0.15},
                                 {DiskFault::kBitFlip, 0.3},
                                 {DiskFault::kStaleRead, 0.2},
                                 {DiskFault::kMisdirectedRead, 0.3},
                                 {DiskFault::kTornWrite, 0.2},
                                 {DiskFault::kLostWrite, 0.2},
                                 {DiskFault::kMisdirectedWrite, 0.2},
                                 {DiskFault::kWriteError, 0.05},
                                 {DiskFault::kSyncError, 0.03},
                                 {DiskFault::kNoSpace, 0.01},
                                 {DiskFault::kSlow, 0.05}}) {
        faults[fault] = dice.Chance(0.7) ? most : 0;
      }
      history.catalog().refuse = dice.Chance(0.3) ? 0.2 : 0;
      history.Run(dice.Chance(0.3) ? RunEnd::kPowerCut : RunEnd::kOrderly);
      if (dice.Chance(0.1)) history.catalog().Lose();
      history.catalog().Damage(static_cast<int>(dice.Below(30)));
    }
    // What survives all that is right, and taken from a disk that is well again.
    faults.rate = {};
    history.catalog().refuse = 0;
    if (!HasFailure()) history.Run(RunEnd::kOrderly);
    injected += history.injected();
    totals += history.totals();
  });
  if (Replaying() || HasFailure()) return;
  EXPECT_GE(injected.total(), Scaled(100'000));
  for (const auto& [target, least] : {std::pair{DiskTarget::kValue, 40'000},
                                      {DiskTarget::kSegmentHeader, 15'000},
                                      {DiskTarget::kRecordHead, 10'000},
                                      {DiskTarget::kRegionHeader, 5'000},
                                      {DiskTarget::kRegionFooter, 5'000},
                                      {DiskTarget::kCatalog, 10'000}}) {
    EXPECT_GE(injected.Of(target), Scaled(least)) << static_cast<int>(target);
  }
  for (size_t i = 0; i < kDiskFaultCount; ++i) {
    const auto fault = static_cast<DiskFault>(i);
    EXPECT_GE(injected.Of(fault), Scaled(500)) << i;
    for (DiskTarget target : {DiskTarget::kValue, DiskTarget::kSegmentHeader,
                              DiskTarget::kRegionHeader, DiskTarget::kRegionFooter}) {
      EXPECT_GE(injected.Of(fault, target), 1u) << i << " " << static_cast<int>(target);
    }
  }
  // Of a catalog's rows.
  for (DiskFault fault : {DiskFault::kWriteError, DiskFault::kLostWrite, DiskFault::kStaleRead,
                          DiskFault::kMisdirectedWrite, DiskFault::kBitFlip}) {
    EXPECT_GE(injected.Of(fault, DiskTarget::kCatalog), Scaled(500)) << static_cast<int>(fault);
  }
  EXPECT_GE(totals.found_bad, Scaled(10'000));
  EXPECT_GE(totals.hits, Scaled(50'000));
  EXPECT_GE(totals.disk_hits, Scaled(10'000));
}

}  // namespace
}  // namespace ember::sim
