// SimCatalog: a node's catalog in a simulation: batches in order, of which a loss of power takes
// the last ones, acknowledged or not (the real one doesn't sync its log either), and which can be
// damaged.
//
// The store outlives the runs of a node; each run has a mount of its own.
// Concurrency: the simulation's thread.
#pragma once

#include <deque>
#include <memory>

#include "kvstore/disk/catalog.h"
#include "tests/sim/disk_faults.h"
#include "tests/sim/simulation.h"

namespace ember::sim {

class SimCatalog {
 public:
  SimCatalog(Simulation* simulation, DiskFaultCount* injected)
      : simulation_(simulation), injected_(injected) {}

  double refuse = 0;  // the chance that a batch is refused

  // For one run; `this` outlives it.
  std::unique_ptr<kv::Catalog> Mount();

  void LosePower();
  // The process dies alone: all that it has handed over stays.
  void EndProcess() { ++losses_; }
  // All of it.
  void Lose();
  // So many rows, each in one of the ways in which a row can lie: gone, of another place, length,
  // key or generation.
  void Damage(int rows);

 private:
  class Mounted;
  using Contents = std::map<uint32_t, kv::CatalogContents>;

  static void Apply(const kv::CatalogBatch& batch, Contents* contents);
  kv::CatalogContents Read(uint32_t shard) const;
  void Write(kv::CatalogBatch batch);
  void DamageOne(kv::CatalogContents* contents);
  void Count(DiskFault fault) { injected_->Add(fault, DiskTarget::kCatalog); }

  Simulation* const simulation_;
  DiskFaultCount* const injected_;
  Contents flushed_;
  std::deque<kv::CatalogBatch> log_;  // not flushed yet
  uint64_t losses_ = 0;
};

}  // namespace ember::sim
