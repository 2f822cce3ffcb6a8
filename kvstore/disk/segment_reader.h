// SegmentReader: brings segments from disk back into memory, and checks every byte on the way.
//
// One direct read of the record's body straight to where the segment will lie; callers of the same
// key share it. What does not pass the check is dropped and counted, and never seen by anybody.
// Concurrency: the loop's thread only. Life: no Load may be pending when it dies.
#pragma once

#include <coroutine>
#include <deque>
#include <unordered_map>

#include "kvstore/disk/region_set.h"

namespace ember::kv {

class SegmentReader {
 public:
  SegmentReader(TierContext* context, RegionSet* regions) : context_(context), regions_(regions) {}

  // A hit holds the segment in memory. kBusy: memory has no room for it now.
  io::Task<ShardEngine::Found> Load(BlockKey key);
  // Begins loading what is on disk, unless too much is being read; whoever asks next waits less.
  void Prefetch(std::span<const BlockKey> keys);

 private:
  struct Waiting {
    ShardEngine::Found found;
    std::coroutine_handle<> caller;
  };
  struct Turn;
  struct Shared;

  io::Task<void> LoadInBackground(BlockKey key);
  // Reads, checks and publishes.
  io::Task<ShardEngine::Found> Read(BlockKey key);
  io::Task<Status> ReadBody(Region* region, uint64_t offset, const SegmentRecord& segment,
                            MutableByteSpan body);
  bool MayRead(uint64_t bytes) const;
  void EndTurn(uint64_t bytes);

  TierContext* const context_;
  RegionSet* const regions_;
  // By key, who waits for the read that is under way.
  std::unordered_map<BlockKey, std::vector<Waiting*>> reading_;
  std::deque<std::coroutine_handle<>> turns_;  // waiting to begin a read
  size_t reads_ = 0;
  uint64_t read_bytes_ = 0;
};

}  // namespace ember::kv
