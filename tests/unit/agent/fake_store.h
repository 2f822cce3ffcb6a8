// FakeStore: a StoreClient over a map, with faults to order. Any thread.
#pragma once

#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>

#include "client/store_client/store_client.h"

namespace ember::agent {

class FakeStore final : public StoreClient {
 public:
  struct Faults {
    bool down = false;                 // every answer is "lost node"
    bool frozen = false;               // every answer comes at the deadline
    size_t usable_at_get = SIZE_MAX;   // later segments are gone by then
    size_t wrong_shape_at = SIZE_MAX;  // this one was made for another shape
    bool match_only = false;           // all is there at match, nothing at get
    bool hold_gets = false;            // they begin only when this is over
  };

  MatchResult Match(std::span<const SegmentRef> segments, Duration timeout,
                    const MatchOptions& options) override;
  GetResult Get(std::span<const GetRequest> requests, const LayoutDigest& layout,
                Duration timeout) override;
  std::vector<PutOutcome> Put(std::span<const PutRequest> requests, const LayoutDigest& layout,
                              Duration timeout, const PutOptions& options) override;
  std::vector<NodeState> Nodes() override { return {}; }
  void Shutdown() override {}

  void Set(Faults faults);
  // As after a purge: what was put is gone; the segments of `keep` blocks from their chains' starts
  // stay.
  void Purge(uint32_t keep = 0);
  size_t size() const;
  int matches() const { return matches_; }
  int gets() const { return gets_; }

 private:
  mutable std::mutex mutex_;
  std::condition_variable thaw_;
  Faults faults_;
  std::map<BlockKey, Bytes> segments_;
  std::map<BlockKey, uint32_t> first_block_;
  std::atomic<int> matches_ = 0, gets_ = 0;
};

}  // namespace ember::agent
