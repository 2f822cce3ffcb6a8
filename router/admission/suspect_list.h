// SuspectList: requests that broke the replica they were sent to, by the digest of what they ask,
// so that one that breaks whoever takes it is not walked through the fleet by a client that tries
// again and again. Bounded; forgotten after a while, and as soon as it is served. One thread.
#pragma once

#include <map>

#include "proto/base/checksum.h"
#include "proto/base/time.h"

namespace ember::router {

class SuspectList {
 public:
  // Broke this many within kMemory: it is tried once more and not again elsewhere.
  static constexpr int kSuspect = 2;
  // It is not tried at all for a while.
  static constexpr int kGuilty = 3;
  static constexpr Duration kMemory = seconds(30);

  bool empty() const { return entries_.empty(); }
  // Requests that one death cut off together (sent before it) count it once.
  void OnBroke(const Checksum& digest, uint32_t replica, TimePoint sent, TimePoint now);
  // A neighbour of the guilty one, or luck: nothing is held against it.
  void OnServed(const Checksum& digest) { entries_.erase(digest); }
  // Replicas that it broke lately.
  int Breaks(const Checksum& digest, TimePoint now) const;

 private:
  struct Entry {
    int breaks = 0;
    TimePoint last;
    std::map<uint32_t, TimePoint> broken;  // replicas, and when last
  };
  std::map<Checksum, Entry> entries_;
};

}  // namespace ember::router
