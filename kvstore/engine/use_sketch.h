// UseSketch: about how often a name was used lately, also of segments that are not stored: a
// count-min sketch of counters up to 15 (as in TinyLFU: Einziger, Friedman, Manes 2017).
//
// A name's four counters lie in one block of 64, in a row of 16 each. All are halved at once when a
// period is over: aged one after the other, names would be compared that were halved and that were
// not yet, which was measured to cost a tenth of the hits. It takes about 0.1 ms per MiB.
// Concurrency: the shard's thread only.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <vector>

namespace ember::kv {

class UseSketch {
 public:
  static constexpr uint8_t kMax = 15;

  // One counter for every 16 KiB of memory: tens for each segment.
  explicit UseSketch(uint64_t memory_bytes)
      : blocks_(std::bit_ceil(std::clamp<uint64_t>(memory_bytes >> 20, 1 << 6, 1 << 18))) {}

  // Counts a use; counters halve every `period` uses. The count afterwards, at least 1.
  uint8_t Count(uint64_t name, uint64_t period) {
    Age(period);
    Block& block = BlockOf(name);
    const auto count = static_cast<uint8_t>(std::min(Estimate(name) + 1, int{kMax}));
    for (int row = 0; row < kRows; ++row) {
      uint8_t& counter = block[Slot(name, row)];
      counter = std::max(counter, count);
    }
    return count;
  }
  uint8_t Estimate(uint64_t name) {
    const Block& block = BlockOf(name);
    uint8_t least = kMax;
    for (int row = 0; row < kRows; ++row) least = std::min(least, block[Slot(name, row)]);
    return least;
  }

 private:
  static constexpr int kRows = 4;
  static constexpr int kRowSize = 16;
  using Block = std::array<uint8_t, kRows * kRowSize>;

  // Names are hashes: 16 bits choose the counters, those above the block.
  Block& BlockOf(uint64_t name) { return blocks_[(name >> 16) & (blocks_.size() - 1)]; }
  static size_t Slot(uint64_t name, int row) {
    return static_cast<size_t>(row * kRowSize) + ((name >> (4 * row)) & (kRowSize - 1));
  }
  void Age(uint64_t period) {
    // Not so often that halving were most of the work.
    if (++uses_ < std::max<uint64_t>(period, blocks_.size() * kRowSize)) return;
    uses_ = 0;
    for (Block& block : blocks_) {
      for (uint8_t& counter : block) counter /= 2;
    }
  }

  std::vector<Block> blocks_;
  uint64_t uses_ = 0;  // since they were halved
};

}  // namespace ember::kv
