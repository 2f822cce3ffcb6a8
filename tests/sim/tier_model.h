// TierModel: what was put, acknowledged and purged in the history of one shard's data directory,
// over all its runs, and what therefore may and must be found.
//
// Every put of a number makes other bytes, its variant, so that a reader can tell not only right
// bytes from wrong ones but also whose they are: one that was purged must never be seen again.
// It watches the engine, to know what had to go for room. Concurrency: the simulation's thread.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "kvstore/engine/engine_observer.h"
#include "tests/sim/sim_wall_clock.h"
#include "tests/unit/kvstore/test_segments.h"

namespace ember::sim {

class TierModel final : public kv::EngineObserver {
 public:
  static constexpr uint64_t kNamespaces = 4;
  static constexpr uint64_t kShortLived = 3;  // this one has a time to live
  static constexpr Duration kTtl = seconds(20);

  TierModel(const SimWallClock* wall_clock, uint64_t numbers, size_t max_payload);

  // Media faults are injected: what was acknowledged may be lost, and copies may be found bad.
  bool lossy = false;

  uint64_t numbers() const { return keys_.size(); }
  std::vector<uint64_t> AllNumbers() const;
  BlockKey KeyOf(uint64_t number) const;
  // A new variant.
  kv::testing::TestSegment NewSegment(uint64_t number);
  // Fails the test unless these are the bytes of some variant that may be seen now.
  void CheckFound(uint64_t number, ByteSpan encoded_header, ByteSpan payload);
  // Nothing was found. Fails the test if the number's durable variant should have been.
  void CheckMissed(uint64_t number, MissReason miss) const;

  // ---- durability
  // Counts what left the disk of this number; so that an acknowledgement can be told from a later
  // loss.
  uint64_t departures(uint64_t number) const { return keys_[number].departures; }
  void Acknowledged(uint64_t number, const GenerationId& generation);
  uint64_t acknowledged() const;

  // ---- purges
  struct Purge {
    PurgeScope scope;
    uint64_t epoch;
    std::map<uint64_t, uint64_t> floors;  // number -> the first variant that may be seen again
  };
  // To be done at once, with an epoch above `known`.
  Purge BeginPurge(PurgeScope scope, uint64_t known);
  // It is durable.
  void EndPurge(const Purge& purge);
  PurgeScope ScopeOf(uint64_t number, bool by_tenant) const;

  // Another run on the same directory, after the old one's end. `died`, not in the orderly way:
  // purges that weren't durable may be forgotten.
  void BeginRun(bool died);
  // Of segments that were durable.
  uint64_t purged() const { return purged_; }

  void Stored(const BlockKey& key, Tier tier, const GenerationId& generation) override;
  void Removed(const BlockKey& key, Tier tier, const GenerationId& generation,
               MissReason reason) override;
  void Purged(const PurgeScope&, uint64_t) override {}

 private:
  struct Key {
    size_t size = 0;
    uint64_t next_variant = 0;
    uint64_t floor = 0;               // variants below were purged
    uint64_t durable_floor = 0;       // and that is durable
    std::optional<uint64_t> durable;  // the variant that a restart must find
    uint64_t departures = 0;
    std::vector<int64_t> put_ms;  // by variant
  };

  uint64_t NamespaceOf(uint64_t number) const { return number % kNamespaces; }
  Duration AgeOf(const Key& key, uint64_t variant) const {
    return milliseconds(wall_clock_->NowMs() - key.put_ms[variant]);
  }
  std::string TenantOf(uint64_t number) const { return number % 3 == 0 ? "acme" : "beta"; }

  const SimWallClock* const wall_clock_;
  std::vector<Key> keys_;
  std::map<BlockKey, uint64_t> numbers_;
  uint64_t epoch_ = 0;
  uint64_t purged_ = 0;
};

}  // namespace ember::sim
