#include "kvstore/memory/free_space.h"

#include <iterator>

#include "proto/base/check.h"

namespace ember::kv {

FreeSpace::FreeSpace(uint64_t length) {
  if (length > 0) Insert(0, length);
}

void FreeSpace::Insert(uint64_t offset, uint64_t length) {
  by_offset_.emplace(offset, length);
  by_length_.emplace(length, offset);
  free_ += length;
}

void FreeSpace::Erase(std::map<uint64_t, uint64_t>::iterator hole) {
  free_ -= hole->second;
  by_length_.erase({hole->second, hole->first});
  by_offset_.erase(hole);
}

std::optional<uint64_t> FreeSpace::Take(uint64_t length) {
  auto fit = by_length_.lower_bound({length, 0});
  if (length == 0 || fit == by_length_.end()) return std::nullopt;
  const auto [hole_length, offset] = *fit;
  Erase(by_offset_.find(offset));
  if (hole_length > length) Insert(offset + length, hole_length - length);
  return offset;
}

void FreeSpace::Give(uint64_t offset, uint64_t length) {
  auto next = by_offset_.lower_bound(offset);
  EMBER_CHECK(next == by_offset_.end() || offset + length <= next->first, "freed twice");
  if (next != by_offset_.begin()) {
    auto previous = std::prev(next);
    EMBER_CHECK(previous->first + previous->second <= offset, "freed twice");
    if (previous->first + previous->second == offset) {
      offset = previous->first;
      length += previous->second;
      Erase(previous);
    }
  }
  if (next != by_offset_.end() && offset + length == next->first) {
    length += next->second;
    Erase(next);
  }
  Insert(offset, length);
}

}  // namespace ember::kv
