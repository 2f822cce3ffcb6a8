// KeyRange: the segments that one load thread owns, and what the node has promised about each: the
// expected state, kept outside the node's process.
//
// A promise only ever becomes stronger by an answer that says so, weaker by the loss of a process,
// and ends with a purge. One thread.
#pragma once

#include <string>
#include <vector>

#include "tests/crash/lives.h"
#include "tests/unit/store_client/oracle.h"

namespace ember::testing {

struct Promise {
  enum class Kind : uint8_t {
    kNone,      // never put: must not be there
    kPossible,  // a put, or a purge, was begun: there or not
    kMemory,    // acknowledged by the process `life`
    kDisk,      // acknowledged at level `disk`: there, whatever has happened since
    kPurged,    // its purge was acknowledged: must never be there again
  };
  Kind kind = Kind::kNone;
  uint32_t life = 0;
};

// Some segments of one hash chain, which are put together.
struct OwnedChain {
  uint32_t seed = 0;
  uint32_t payload_bytes = 0;  // of each segment
  std::vector<Promise> promises;
};

class KeyRange {
 public:
  // `salt` makes the namespace the range's own. `orderly_keeps`: what is in memory when the process
  // is stopped in order is on disk then.
  KeyRange(std::string salt, const Lives* lives, bool orderly_keeps)
      : salt_(std::move(salt)), lives_(lives), orderly_keeps_(orderly_keeps) {}

  Oracle OracleOf(const OwnedChain& chain) const {
    return Oracle(chain.seed, chain.promises.size(), chain.payload_bytes, salt_);
  }
  OwnedChain& Add(size_t segments, uint32_t payload_bytes) {
    return chains_.emplace_back(
        OwnedChain{next_seed_++, payload_bytes, std::vector<Promise>(segments)});
  }
  std::vector<OwnedChain>& chains() { return chains_; }
  const std::string& salt() const { return salt_; }

  // What holds now.
  Promise::Kind Holds(const Promise& promise) const;

  static void PutBegins(Promise* promise) {
    if (promise->kind == Promise::Kind::kNone) promise->kind = Promise::Kind::kPossible;
  }
  // Acknowledged between the two moments.
  void PutEnds(Promise* promise, bool on_disk, Moment begin, Moment end) const;
  void PurgeBegins();
  void PurgeEnds();

 private:
  const std::string salt_;
  const Lives* const lives_;
  const bool orderly_keeps_;
  uint32_t next_seed_ = 1;
  std::vector<OwnedChain> chains_;
};

// For reports.
std::string_view NameOf(Promise::Kind kind);

}  // namespace ember::testing
