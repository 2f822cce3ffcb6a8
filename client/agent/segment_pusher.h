// SegmentPusher: brings the new segments of saved slots into the store, one slot at a time, behind
// everything else: it waits while a load is under way, and when its queue is full the oldest slot
// in it is dropped, which costs a later recompute and is counted.
//
// It asks first what the store lacks, and cuts and sends only that.
// Concurrency: Push from any thread, never blocks; the work is done on a thread of its own.
// Life: store, priority and metrics must outlive it. The destructor drops what is queued.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "client/agent/agent_metrics.h"
#include "client/agent/identity.h"
#include "client/agent/load_priority.h"
#include "client/agent/saved_slot.h"
#include "client/store_client/store_client.h"

namespace ember::agent {

struct PushResult {
  uint64_t segments = 0;  // that the store lacked and has now
  uint64_t bytes = 0;
  double milliseconds = 0;
};

struct PushJob {
  std::shared_ptr<const EngineIdentity> identity;
  std::shared_ptr<const SavedSlot> saved;
  std::vector<SegmentRef> refs;                    // of all whole segments of `saved`
  std::function<void(const PushResult&)> on_done;  // on the pusher's thread
};

class SegmentPusher {
 public:
  static constexpr size_t kMaxQueuedBytes = 512u << 20;  // of saved slots

  SegmentPusher(StoreClient& store, LoadPriority& priority, AgentMetrics& metrics);
  ~SegmentPusher();

  void Push(PushJob job);
  // Jobs queued or under way.
  size_t pending() const;

 private:
  void Run();
  PushResult Do(const PushJob& job);
  // Puts segments refs[at] for each `at` of `missing`; false when the store took none.
  bool PutBatch(const PushJob& job, std::span<const size_t> missing, PushResult* out);

  StoreClient& store_;
  LoadPriority& priority_;
  AgentMetrics& metrics_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<PushJob> queue_;
  size_t queued_bytes_ = 0;
  bool working_ = false;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace ember::agent
