// CopyHints: which owners were last seen to have a segment, so that loads are spread over the
// copies that exist. Only hints: they may be stale, and loads ask the other owners before they give
// up.
//
// Bounded: two generations of entries; when the young one is full, the old one is forgotten.
// The loop's thread only.
#pragma once

#include <cstdint>
#include <unordered_map>

#include "proto/model/block_hash.h"

namespace ember {

class CopyHints {
 public:
  enum class Hint { kUnknown, kPresent, kAbsent };

  // `rank` is the owner's place in the segment's list of owners, below 8.
  void Note(const BlockKey& key, size_t rank, bool present) {
    Entry& entry = Touch(key);
    const auto bit = static_cast<uint8_t>(1u << rank);
    entry.present = static_cast<uint8_t>(present ? entry.present | bit : entry.present & ~bit);
    entry.absent = static_cast<uint8_t>(present ? entry.absent & ~bit : entry.absent | bit);
  }
  Hint Find(const BlockKey& key, size_t rank) const {
    auto entry = young_.find(key);
    if (entry == young_.end()) {
      entry = old_.find(key);
      if (entry == old_.end()) return Hint::kUnknown;
    }
    if (entry->second.present >> rank & 1) return Hint::kPresent;
    return entry->second.absent >> rank & 1 ? Hint::kAbsent : Hint::kUnknown;
  }
  void Clear() {
    young_.clear();
    old_.clear();
  }

 private:
  static constexpr size_t kGenerationSize = 32768;
  struct Entry {
    uint8_t present = 0;  // a bit per rank
    uint8_t absent = 0;
  };

  Entry& Touch(const BlockKey& key) {
    if (auto entry = young_.find(key); entry != young_.end()) return entry->second;
    Entry known;
    if (auto entry = old_.find(key); entry != old_.end()) known = entry->second;
    if (young_.size() >= kGenerationSize) old_ = std::exchange(young_, {});
    return young_[key] = known;
  }

  std::unordered_map<BlockKey, Entry> young_;
  std::unordered_map<BlockKey, Entry> old_;
};

}  // namespace ember
