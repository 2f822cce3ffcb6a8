// ReplyWitness: whether replies bear out what one holder's events say. An engine that emptied its
// cache without a word is found out by prompts that it computes though it was said to hold them.
//
// A plain value; one thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "proto/model/block_hash.h"

namespace ember::router {

class ReplyWitness {
 public:
  // What was promised to a request that is sent now.
  struct Promise {
    uint64_t tokens = 0;   // that the holder has
    bool goes_on = false;  // the prompt has more tokens than these
    uint64_t era = 0;
    BlockHash first{};  // of their blocks
    // When the first and the last were stored: ascends; 0: long ago.
    uint32_t first_stored = 0;
    uint32_t last_stored = 0;
  };
  Promise Make(uint64_t tokens, bool goes_on, const BlockHash& first, const BlockHash& last) const;

  enum class Verdict : uint8_t {
    kNone,
    kContradicted,
    kEmptied,  // enough contradictions: the holder has nothing of what it was said to have
  };
  // The reply tells how many tokens were in the cache. `block_size`: the holder's, in tokens.
  Verdict OnReply(const Promise& promise, uint64_t actual, uint32_t block_size);

  // What the device's events say.
  void OnStored(std::span<const BlockHash> blocks);
  void OnRemoved() { evicts_ = true; }
  // Everything that was said is void.
  void Reset() { contradictions_ = 0; }

 private:
  static constexpr size_t kRecent = 4096;
  struct Stored {
    uint32_t tag = 0;
    uint32_t when = 0;
  };
  uint32_t WhenStored(const BlockHash& block) const;

  uint32_t contradictions_ = 0;  // in a row
  uint64_t era_ = 0;             // ends with each contradiction
  uint32_t missing_stored_ = 0;  // when the youngest block that was missing had been stored
  bool evicts_ = false;          // since the first contradiction
  std::vector<Stored> recent_;   // the last few thousand blocks, by their names
  uint32_t now_ = 0;
};

}  // namespace ember::router
