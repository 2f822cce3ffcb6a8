// Tombstones: what was purged, and since when; so that no older record of it ever comes back, from
// whatever tier.
//
// Epochs are numbers that grow with every purge. A record carries the newest epoch that was known
// when it was made; a tombstone covers the records in its scope that carry a smaller one.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>

#include "proto/model/purge_scope.h"

namespace ember::kv {

class Tombstones {
 public:
  using Map = std::map<PurgeScope, uint64_t>;  // scope -> epoch of its newest purge

  // Above `capacity` scopes (at least 1) the oldest becomes one for everything: records that old
  // are then refused whoever they belong to, which costs a miss but never brings a purged one back.
  explicit Tombstones(size_t capacity) : capacity_(capacity) {}

  void Add(const PurgeScope& scope, uint64_t epoch);
  bool Cover(const NamespaceId& ns, uint64_t tenant_hash, uint64_t record_epoch) const;

  // A record carries this epoch, so some purge had it, whether or not it is known to this process:
  // the next one must have a greater one to cover the record.
  void HearOf(uint64_t epoch) { epoch_ = std::max(epoch_, epoch); }
  // The newest epoch heard of: what new records carry.
  uint64_t epoch() const { return epoch_; }
  const Map& all() const { return epochs_; }

 private:
  void Bury(const PurgeScope& scope, uint64_t epoch);
  uint64_t EpochOf(const PurgeScope& scope) const;

  const size_t capacity_;
  uint64_t epoch_ = 0;
  Map epochs_;
};

}  // namespace ember::kv
