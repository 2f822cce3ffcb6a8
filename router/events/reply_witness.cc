#include "router/events/reply_witness.h"

#include <algorithm>
#include <cstring>

namespace ember::router {
namespace {

// Replies in a row after which a holder is taken for empty. One is no proof: what was there may
// have been evicted while the request waited.
constexpr uint32_t kContradictionsToDoubt = 4;
// Engines compute the prompt's last token's block whole, and with EAGLE the last one that matches.
constexpr uint64_t kLastBlock = 1;
constexpr uint64_t kLastMatchingBlock = 1;

uint64_t WordOf(const BlockHash& block) {
  uint64_t word;
  std::memcpy(&word, block.bytes.data(), sizeof word);
  return word;
}

}  // namespace

ReplyWitness::Promise ReplyWitness::Make(uint64_t tokens, bool goes_on, const BlockHash& first,
                                         const BlockHash& last) const {
  return {tokens, goes_on, era_, first, WhenStored(first), WhenStored(last)};
}

ReplyWitness::Verdict ReplyWitness::OnReply(const Promise& promise, uint64_t actual,
                                            uint32_t block_size) {
  const uint64_t may_lack = (kLastMatchingBlock + (promise.goes_on ? 0 : kLastBlock)) * block_size;
  if (promise.tokens <= may_lack) return Verdict::kNone;
  if (actual >= (promise.tokens - may_lack) / 2) {
    // What was stored after what is missing says nothing about a cache that was emptied in between,
    // unless that evicts: then it is full, and what was missing may have been evicted as well.
    if (evicts_ || promise.first_stored <= missing_stored_) contradictions_ = 0;
    return Verdict::kNone;
  }
  // A burst of equal prompts finds nothing before its first reply: that is one witness, not many.
  if (promise.era != era_) return Verdict::kNone;
  ++era_;
  if (contradictions_ == 0) {
    evicts_ = false;
    missing_stored_ = 0;
  }
  missing_stored_ = std::max(missing_stored_, promise.last_stored);
  // It is stored now, whether or not the engine says so.
  if (actual == 0) OnStored({&promise.first, 1});
  if (++contradictions_ < kContradictionsToDoubt) return Verdict::kContradicted;
  contradictions_ = 0;
  return Verdict::kEmptied;
}

void ReplyWitness::OnStored(std::span<const BlockHash> blocks) {
  if (recent_.empty()) recent_.resize(kRecent);
  for (const BlockHash& block : blocks) {
    const uint64_t word = WordOf(block);
    recent_[word % kRecent] = {static_cast<uint32_t>(word >> 32), ++now_};
  }
}

uint32_t ReplyWitness::WhenStored(const BlockHash& block) const {
  if (recent_.empty()) return 0;
  const uint64_t word = WordOf(block);
  const Stored& stored = recent_[word % kRecent];
  return stored.tag == static_cast<uint32_t>(word >> 32) ? stored.when : 0;
}

}  // namespace ember::router
