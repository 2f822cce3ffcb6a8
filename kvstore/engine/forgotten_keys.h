// ForgottenKeys: why keys that were here are not here any more, for the newest departures; so that
// a miss can say "evicted" and not only "never stored".
//
// Keeps 64 bits of each key: two keys that share them may get each other's reason, never data.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "proto/model/block_hash.h"
#include "proto/model/miss_reason.h"

namespace ember::kv {

class ForgottenKeys {
 public:
  // Remembers the newest `capacity` departures, at about 60 bytes each.
  explicit ForgottenKeys(size_t capacity);

  void Add(const BlockKey& key, MissReason reason);
  // kNeverStored when nothing is known.
  MissReason Reason(const BlockKey& key) const;
  size_t size() const { return reasons_.size(); }

 private:
  struct Departure {
    MissReason reason = MissReason::kNeverStored;
    uint64_t sequence = 0;  // of the newest departure of this key
  };

  std::vector<uint64_t> ring_;  // names, the oldest at added_ % size once it is full
  uint64_t added_ = 0;
  std::unordered_map<uint64_t, Departure> reasons_;
};

}  // namespace ember::kv
