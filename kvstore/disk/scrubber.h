// Scrubber: reads all that is stored, on disk and in memory, again and again in the background, and
// drops what has changed; so that damage is found before somebody asks.
//
// Reads bypass the page cache. A pass over the disk, then one over memory, at a bounded rate; the
// next begins an interval after the last began. Also notices region files that were deleted under
// the process. Concurrency: the loop's thread only. Life: Stop, then the gate's end.
#pragma once

#include <coroutine>

#include "kvstore/disk/region_set.h"

namespace ember::kv {

class Scrubber {
 public:
  Scrubber(TierContext* context, RegionSet* regions) : context_(context), regions_(regions) {}

  void Start();
  // What runs in the gate ends soon.
  void Stop();

 private:
  struct Paused;

  io::Task<void> Run();
  io::Task<void> PassDisk();
  io::Task<void> CheckOnDisk(size_t slot, AlignedBuffer* buffer);
  io::Task<void> PassMemory();
  io::Task<void> CheckInMemory(BlockKey key);
  // Waits as long as the rate asks for so many bytes.
  io::Task<void> Pace(uint64_t bytes);
  io::Task<void> Pause(Duration duration);

  TierContext* const context_;
  RegionSet* const regions_;
  bool stopped_ = false;
  std::coroutine_handle<> paused_;
  std::unique_ptr<io::Loop::Timer> timer_;
};

}  // namespace ember::kv
