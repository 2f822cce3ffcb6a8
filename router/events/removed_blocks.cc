#include "router/events/removed_blocks.h"

#include <algorithm>
#include <cstring>

namespace ember::router {
namespace {

constexpr size_t kSlots = 1 << 14;  // 128 KiB

uint64_t RemovedWord(const BlockHash& block) {
  uint64_t word;
  std::memcpy(&word, block.bytes.data(), sizeof word);
  return word;
}

}  // namespace

void RemovedBlocks::Add(const BlockHash& block) {
  if (words_.empty()) words_.resize(kSlots);
  const uint64_t word = RemovedWord(block);
  words_[word % kSlots] = word;
}

std::vector<BlockHash> RemovedBlocks::Erase(std::span<const BlockHash> blocks) {
  std::vector<BlockHash> erased;
  if (empty()) return erased;
  for (const BlockHash& block : blocks) {
    const uint64_t word = RemovedWord(block);
    if (words_[word % kSlots] != word) continue;
    words_[word % kSlots] = 0;
    erased.push_back(block);
  }
  return erased;
}

size_t RemovedBlocks::Before(std::span<const BlockHash> chain, size_t blocks) const {
  blocks = std::min(blocks, chain.size());
  if (empty()) return blocks;
  for (size_t i = 0; i < blocks; ++i) {
    const uint64_t word = RemovedWord(chain[i]);
    if (words_[word % kSlots] == word) return i;
  }
  return blocks;
}

}  // namespace ember::router
