// FeedTracker: checks what a node's feed sends, passes it to a listener, and keeps the positions to
// go on from. It believes nothing: a batch that is malformed or skips a number is an error, and
// what it would have said is not passed on.
//
// One thread at a time.
#pragma once

#include <map>

#include "client/feed/feed_listener.h"
#include "proto/rpc/store.pb.h"

namespace ember {

class FeedTracker {
 public:
  explicit FeedTracker(FeedListener& listener) : listener_(listener) {}

  // kMismatch: numbers were skipped; kInvalid: malformed. Then watch again with Resume's request.
  Status Take(const rpc::FeedBatch& batch);
  // Where to go on. A shard whose snapshot was not complete begins anew.
  rpc::FeedRequest Resume() const;
  // The listener knows nothing any more: every shard begins anew.
  void Forget() { places_.clear(); }

 private:
  struct Place {
    uint64_t log = 0;
    uint64_t sequence = 0;  // of the last event taken
    bool complete = false;  // its snapshot
    bool begun = false;
  };

  Status TakeSnapshot(uint32_t shard, uint64_t log, uint32_t shard_count,
                      const rpc::SnapshotPart& part);
  Status TakeEvents(uint32_t shard, uint64_t log, const rpc::FeedEvents& events);

  FeedListener& listener_;
  std::map<uint32_t, Place> places_;
};

}  // namespace ember
