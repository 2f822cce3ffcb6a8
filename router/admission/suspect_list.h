// SuspectList: requests that broke the replica they were sent to, or that it answered with an
// error or, as it seems, never would have, by the digest of their prompt, so that one that breaks
// whoever takes it is not walked through the fleet by a client that tries again and again, and what
// fails everywhere is held against nobody. Bounded; forgotten after a while, and as soon as it is
// served. One thread.
#pragma once

#include <algorithm>
#include <map>
#include <optional>

#include "proto/base/digest_lru.h"
#include "proto/base/time.h"

namespace ember::router {

class SuspectList {
 public:
  // Broke this many within kMemory: it is tried once more and not again elsewhere.
  static constexpr int kSuspect = 2;
  // It is not tried at all for a hold, and then at one replica; each that it breaks doubles it.
  static constexpr int kGuilty = 3;
  static constexpr Duration kFirstHold = seconds(10), kLongestHold = seconds(160);
  static constexpr Duration kMemory = seconds(30);  // after its last failure, or its hold
  // An engine that dies may still answer what killed it with an error, and go so much later.
  static constexpr Duration kLastWords = seconds(5);
  // kServerError: 5xx, an error within the reply, or a reply that broke off.
  // kNoReply: its client left after a wait far beyond what is usual.
  enum class Failure : uint8_t { kBroke, kServerError, kNoReply };

  // Nothing is known of any request.
  bool Empty(TimePoint now);
  // Requests that one failure cut off together (sent before it) count it once. Says whether it may
  // be the replica's fault: not when the request failed elsewhere too, and of equal requests that
  // failed together only the first one.
  bool OnFailure(Failure failure, const Checksum& digest, uint32_t replica, TimePoint sent,
                 TimePoint now);
  // Nobody serves there any more: what was answered with an error just before has broken it.
  void OnDeath(uint32_t replica, TimePoint now);
  // A neighbour of the guilty one, or luck: nothing is held against it.
  void OnServed(const Checksum& digest) { entries_.Drop(digest); }
  // The only replica that answered it with an error lately, or not at all, if it broke none:
  // another one may do better.
  std::optional<uint32_t> FailedAt(const Checksum& digest, TimePoint now);
  // Replicas that it broke lately.
  int Breaks(const Checksum& digest, TimePoint now);
  // So long it is not tried; zero: it is now, and if it is guilty by nobody else meanwhile.
  Duration RefusedFor(const Checksum& digest, TimePoint now);

 private:
  struct Failed {
    TimePoint when;  // last
    Failure how = Failure::kServerError;
  };
  struct Entry {
    int breaks = 0;
    TimePoint last, held_until;
    std::map<uint32_t, Failed> at;  // by replica
  };
  static bool IsOver(const Entry& entry, TimePoint now) {
    return std::max(entry.last, entry.held_until) + kMemory <= now;
  }
  static void AddBreak(Entry* entry, TimePoint now);
  // Null: nothing is known, or it was long ago.
  Entry* Find(const Checksum& digest, TimePoint now);
  DigestLru<Entry> entries_;
};

}  // namespace ember::router
