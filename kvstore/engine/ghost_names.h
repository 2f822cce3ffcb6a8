// GhostNames: names of segments that left lately, the newest of them, in a table of fixed size.
//
// A set-associative table: a new name takes the place of the oldest in its set. 32 bits of each
// name are kept, so that now and then a name is taken for another's: a policy's guess, no more.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <vector>

namespace ember::kv {

class GhostNames {
 public:
  // Room in proportion to the memory: one name for every 32 KiB of it.
  explicit GhostNames(uint64_t memory_bytes)
      : sets_(std::bit_ceil(std::clamp<uint64_t>(memory_bytes / (kWays * 32768), 64, 1 << 20))) {}

  // Remembered until it is taken, or until `capacity` others have come after it.
  void Add(uint64_t name, size_t capacity) {
    capacity_ = static_cast<uint32_t>(std::min<size_t>(capacity, UINT32_MAX / 2));
    Set& set = SetOf(name);
    *std::ranges::max_element(set, {}, [&](const Ghost& g) { return Age(g); }) = {Mark(name),
                                                                                  ++added_};
  }
  // Whether it is remembered; forgets it.
  bool Take(uint64_t name) {
    for (Ghost& ghost : SetOf(name)) {
      if (ghost.mark != Mark(name) || Age(ghost) > capacity_) continue;
      ghost = {};
      return true;
    }
    return false;
  }

 private:
  struct Ghost {
    uint32_t mark = 0;  // 0: free
    uint32_t added = 0;
  };
  static constexpr size_t kWays = 8;
  using Set = std::array<Ghost, kWays>;

  static uint32_t Mark(uint64_t name) { return static_cast<uint32_t>(name >> 32) | 1; }
  uint64_t Age(const Ghost& ghost) const {
    return ghost.mark == 0 ? UINT64_MAX : static_cast<uint32_t>(added_ - ghost.added);
  }
  Set& SetOf(uint64_t name) { return sets_[name & (sets_.size() - 1)]; }

  std::vector<Set> sets_;
  uint32_t added_ = 0;
  uint32_t capacity_ = 0;
};

}  // namespace ember::kv
