// TierHistory: one data directory through many runs of a shard, with several users at work in each,
// and what must hold at every read, at every start and at every end.
//
// Concurrency: the simulation's thread. Expectations are GoogleTest's.
#pragma once

#include <memory>
#include <string>

#include "tests/sim/kv_disk_map.h"
#include "tests/sim/sim_tier.h"
#include "tests/sim/tier_model.h"

namespace ember::sim {

struct TierHistoryOptions {
  uint64_t numbers = 100;
  size_t max_payload = 20 << 10;
  uint64_t memory_bytes = 384 << 10;
  int users = 5;
  int operations = 40;  // of each user in each run
  double purge = 0.01;  // of the operations
};

enum class RunEnd {
  kOrderly,
  kKill,             // the process dies while users are at work, and nothing else does
  kPowerCut,         // the same with the power
  kPowerCutAtStart,  // before there are users
};

class TierHistory {
 public:
  TierHistory(uint64_t seed, TierHistoryOptions options);
  ~TierHistory();

  // A run: start, check everything, let the users work, end. Other ends than the orderly one come
  // at a random moment, and often in the middle of a purge.
  void Run(RunEnd end);

  Simulation& simulation() { return *simulation_; }
  SimDisk& disk() { return *disk_; }
  SimCatalog& catalog() { return catalog_; }
  TierModel& model() { return model_; }
  SimTierOptions& tier_options() { return tier_options_; }
  DiskFaultCount& injected() { return disk_->injected; }

  // Over all runs.
  struct Totals {
    uint64_t hits = 0;
    uint64_t disk_hits = 0;
    uint64_t puts = 0;
    uint64_t durable = 0;
    uint64_t found_bad = 0;  // copies that the tier found damaged, and dropped
    uint64_t purges = 0;
    uint64_t purged = 0;                  // durable segments that a purge took
    uint64_t acknowledged_at_starts = 0;  // and found
    uint64_t kills = 0;
    uint64_t power_cuts = 0;
    uint64_t power_cuts_at_start = 0;   // of those
    uint64_t power_cuts_in_purges = 0;  // of those

    Totals& operator+=(const Totals& more);
  };
  const Totals& totals() const { return totals_; }

 private:
  io::Task<void> User(SimTier* run, kv::OwnerId owner, int operations);
  io::Task<void> Operate(SimTier* run, kv::OwnerId owner);
  io::Task<void> Put(SimTier* run, kv::OwnerId owner, uint64_t number);
  io::Task<void> Persist(SimTier* run, std::vector<uint64_t> numbers);
  io::Task<void> Get(SimTier* run, uint64_t number, bool may_be_busy);
  void Match(SimTier* run, kv::OwnerId owner);
  io::Task<void> Purge(SimTier* run);
  io::Task<void> CheckAll(SimTier* run);
  void Die(SimTier* run, RunEnd end);
  void CheckReleased(SimTier* run);
  static uint64_t NamedBytes(SimTier* run);
  void CheckSpace(SimTier* run);

  uint64_t Number() { return simulation_->dice().Below(model_.numbers()); }
  void Await(io::Gate& gate, std::string_view what);

  const TierHistoryOptions options_;
  const std::shared_ptr<Simulation> simulation_;
  const std::shared_ptr<SimDisk> disk_;
  SimCatalog catalog_;
  SimWallClock wall_clock_;
  TierModel model_;
  SimTierOptions tier_options_;
  Totals totals_;
  int purging_ = 0;
  bool died_ = false;  // the run of now, or the last one
};

}  // namespace ember::sim
