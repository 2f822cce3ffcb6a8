// SegmentWriter: brings segments from memory to disk: a queue without pins for what the write
// policy wants, and calls that wait until their segments are durable.
//
// A segment is pinned only while it is being written (or waited for), so the queue keeps nothing in
// memory that must go; what has gone by its turn is left out. Writes run side by side, each one
// gather write of head and segment from where it lies; one sync serves all who wait for it.
// A disk that takes nothing (full, or erring in region after region) makes it degraded: callers
// hear it at once, memory goes on, and the disk is tried again every few seconds. Concurrency: the
// loop's thread only. Life: Stop, awaited, before it dies.
#pragma once

#include <deque>
#include <unordered_map>
#include <unordered_set>

#include "kvstore/disk/region_set.h"

namespace ember::kv {

class SegmentWriter {
 public:
  SegmentWriter(TierContext* context, RegionSet* regions) : context_(context), regions_(regions) {}

  // Writes the segment in its turn. False: it was left out, and counted.
  bool Enqueue(const BlockKey& key, uint64_t bytes);
  // Ends when each of the keys is durable, or can't be; in their order: kOk, kNotFound (not in
  // memory, not on disk), kNoSpace, kUnavailable (the disk refuses).
  io::Task<std::vector<StatusCode>> WriteDurably(std::vector<BlockKey> keys);
  // Until the queue is empty and synced, or `deadline`; takes nothing new from then on.
  io::Task<void> Stop(TimePoint deadline);

  uint64_t queue_bytes() const { return queue_bytes_; }
  bool degraded() const { return degraded_ != nullptr; }

 private:
  // A call of WriteDurably.
  struct Call {
    std::vector<StatusCode> codes;
    size_t left = 0;
    std::coroutine_handle<> caller;
  };
  struct Waiter {
    Call* call;
    size_t index;
  };
  struct Job {
    BlockKey key;
    uint64_t bytes = 0;
    int tries = 0;
    Hold hold;                    // held when somebody waits
    std::vector<Waiter> waiters;  // nobody: by policy only
  };
  struct CallEnd;
  struct QueueEnd;

  void Pump();
  bool StartOne();
  io::Task<void> Write(Job job, Region* region, uint64_t offset);
  io::Task<Status> WriteRecord(const Job& job, Region* region, uint64_t offset);
  void Written(Job job, Region* region, uint64_t offset);
  void Refused(Job job, Region* region, const Status& why);
  io::Task<void> Rotate();
  void Retire(Region* region);

  void WaitForSync(Region* region, std::vector<Waiter> waiters);
  io::Task<void> SyncNow(Region* region);
  void ArmSyncTimer();

  void Join(const BlockKey& key, Waiter waiter);
  void Answer(std::vector<Waiter> waiters, StatusCode code);
  void Degrade(const Status& why);
  void DropQueue(StatusCode code);
  void Retry();
  void Recovered();
  bool idle() const { return queue_.empty() && writing_.empty() && syncing_.empty(); }
  void CheckEnd();

  TierContext* const context_;
  RegionSet* const regions_;
  std::deque<Job> queue_;
  std::unordered_set<BlockKey> queued_;
  // By key, of what is being written: who else waits for it.
  std::unordered_map<BlockKey, std::vector<Waiter>> writing_;
  // Who waits for the next sync of a region; present while one runs or is due.
  struct Syncing {
    bool running = false;
    std::vector<Waiter> waiters;
  };
  std::unordered_map<uint32_t, Syncing> syncing_;
  std::vector<AlignedBuffer> heads_;  // to be used again
  std::unique_ptr<io::Loop::Timer> sync_timer_;
  std::unique_ptr<io::Loop::Timer> retry_timer_;
  uint64_t queue_bytes_ = 0;
  uint64_t write_bytes_ = 0;
  int failures_ = 0;  // of regions, one after the other
  bool rotating_ = false;
  bool pumping_ = false;
  bool stopped_ = false;
  Gauge* degraded_ = nullptr;  // set while degraded
  std::coroutine_handle<> stopper_;
};

}  // namespace ember::kv
