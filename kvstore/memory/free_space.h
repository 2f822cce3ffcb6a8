// FreeSpace: the holes of an address range. Best fit, neighbours merged at once.
//
// Both indexes are outside the range, so a stray write into a segment can't damage them. O(log n).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>

namespace ember::kv {

class FreeSpace {
 public:
  explicit FreeSpace(uint64_t length);

  // The offset of `length` bytes at the start of the smallest hole that holds them, lowest first.
  std::optional<uint64_t> Take(uint64_t length);
  // Must be taken now; ends the process when it overlaps a hole.
  void Give(uint64_t offset, uint64_t length);

  uint64_t free() const { return free_; }
  uint64_t largest_hole() const { return by_length_.empty() ? 0 : by_length_.rbegin()->first; }
  size_t holes() const { return by_offset_.size(); }

 private:
  void Insert(uint64_t offset, uint64_t length);
  void Erase(std::map<uint64_t, uint64_t>::iterator hole);

  std::map<uint64_t, uint64_t> by_offset_;             // offset -> length
  std::set<std::pair<uint64_t, uint64_t>> by_length_;  // length, offset
  uint64_t free_ = 0;
};

}  // namespace ember::kv
