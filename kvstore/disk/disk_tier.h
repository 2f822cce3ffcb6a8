// DiskTier: one shard's segments on disk, below the memory: written by policy or on demand, read
// back into memory, there again after a restart.
//
// Everything read from the disk is checked before anybody sees it; what fails is a miss. Which
// segments are on disk the engine knows (ShardEngine::disk); this class moves the bytes.
// Concurrency: the loop's thread only. Life: Open; Close, awaited, before it and the engine die.
#pragma once

#include <memory>

#include "kvstore/disk/purge_journal.h"
#include "kvstore/disk/scrubber.h"
#include "kvstore/disk/segment_reader.h"
#include "kvstore/disk/segment_writer.h"

namespace ember::kv {

class DiskTier final : public LowerTier {
 public:
  // Reads what is there: purges, then regions. The directory is prepared (PrepareDirectory) and
  // locked (DirectoryLock). Everything passed in outlives it.
  static io::Task<Result<std::unique_ptr<DiskTier>>> Open(io::Loop* loop, ShardEngine* engine,
                                                          Catalog* catalog, RandomSource* random,
                                                          const WallClock* wall_clock,
                                                          DiskMetrics* metrics,
                                                          DiskOptions options);
  ~DiskTier() override;

  // The segment, in memory by then, or the reason of the miss. For keys that the engine says are on
  // disk only.
  io::Task<ShardEngine::Found> Load(BlockKey key);
  // The keys will be asked for soon, in this order.
  void Prefetch(std::span<const BlockKey> keys) { reader_.Prefetch(keys); }
  // After they were committed to memory: kOk for each that is durable on disk now. Others stay in
  // memory only: kNoSpace, kUnavailable, or kNotFound if they have left it already.
  io::Task<std::vector<StatusCode>> Persist(std::vector<BlockKey> keys) {
    return writer_.WriteDurably(std::move(keys));
  }
  // The purge will hold after a restart, too. The engine has done it already.
  io::Task<Status> RecordPurge(PurgeScope scope, uint64_t epoch);

  // Writes what is not on disk yet, within `grace`; ends everything in the background.
  io::Task<void> Close(Duration grace);

  bool Offer(const BlockKey& key, uint64_t bytes, bool used_again) override;

  bool degraded() const { return writer_.degraded(); }
  uint64_t capacity_bytes() const { return context_.options.capacity_bytes; }
  uint64_t total_bytes() const { return regions_.total_bytes(); }

 private:
  DiskTier(io::Loop* loop, ShardEngine* engine, Catalog* catalog, RandomSource* random,
           const WallClock* wall_clock, DiskMetrics* metrics, DiskOptions options);
  io::Task<Status> Start(CatalogContents contents);
  io::Task<Status> RestorePurges();
  io::Task<Status> CompactPurges();
  void CleanMemory();
  void QueueWhatIsLeft();
  void Observe();

  TierContext context_;
  const WallClock* const wall_clock_;
  RegionSet regions_;
  SegmentWriter writer_;
  SegmentReader reader_;
  Scrubber scrubber_;
  std::unique_ptr<PurgeJournal> purges_;
  std::unique_ptr<io::Loop::Timer> clean_timer_;
  std::unique_ptr<io::Loop::Timer> observe_timer_;
  double observed_live_ = 0;
  double observed_segments_ = 0;
};

}  // namespace ember::kv
