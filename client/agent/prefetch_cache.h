// PrefetchCache: payloads received ahead of the request that will load them, bounded by bytes.
//
// A segment is here from when room was made for it until its deadline, which use does not prolong,
// or until its room is needed: those asked for longest ago go first. One that somebody holds (a
// waiting request, a load, its transfer) stays and counts.
//
// What is ready was verified against its prompt when it was received; a segment is found only by
// the same proof, so that prompts whose hashes collide do not share it. Whether the store still has
// it is for the user to ask.
//
// Concurrency: the HTTP loop's thread. The payload of a segment that is not settled belongs to its
// transfer.
#pragma once

#include <list>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "client/agent/agent_metrics.h"
#include "client/http/cancellation.h"
#include "proto/base/bytes.h"
#include "proto/base/time.h"
#include "proto/model/segment.h"

namespace ember::agent {

struct PrefetchedSegment {
  PrefetchedSegment(const SegmentRef& ref, size_t size, TimePoint deadline_in)
      : key(ref.key),
        proof(ref.proof),
        payload(std::make_unique_for_overwrite<std::byte[]>(size)),
        bytes(size),
        deadline(deadline_in) {}
  MutableByteSpan span() const { return {payload.get(), bytes}; }

  const BlockKey key;
  const ChainProof proof;
  const std::unique_ptr<std::byte[]> payload;
  const size_t bytes;
  const TimePoint deadline;
  bool ready = false;
  bool used = false;
  double transfer_ms = 0;      // its share of what receiving it took
  TimePoint ready_at;          // once ready
  http::Cancellation settled;  // fires when it is ready, or will never be
};

class PrefetchCache {
 public:
  using Segment = std::shared_ptr<PrefetchedSegment>;

  // `keep`: from when room was made until the deadline.
  PrefetchCache(size_t max_bytes, Duration keep, AgentMetrics& metrics)
      : max_bytes_(max_bytes), keep_(keep), metrics_(metrics) {}

  // As many as asked, null where there is none. They are now the ones asked for last, a chain's end
  // before its start.
  std::vector<Segment> Find(std::span<const SegmentRef> refs);
  // How many from the start are ready.
  size_t ReadyPrefix(std::span<const SegmentRef> refs) const;
  // Room for one that is not here. Null: the rest is held by others.
  Segment Add(const SegmentRef& ref, size_t bytes, TimePoint now);
  // Who holds them keeps them; nulls are passed over.
  void Drop(std::span<const Segment> segments);
  // Lets go of what is past its deadline.
  void Sweep(TimePoint now);

  size_t max_bytes() const { return max_bytes_; }
  size_t bytes() const { return bytes_; }

 private:
  using List = std::list<Segment>;
  List::iterator Erase(List::iterator at);
  const Segment* At(const SegmentRef& ref) const;

  const size_t max_bytes_;
  const Duration keep_;
  AgentMetrics& metrics_;
  size_t bytes_ = 0;
  List segments_;  // asked for last: first
  std::map<BlockKey, List::iterator> by_key_;
};

}  // namespace ember::agent
