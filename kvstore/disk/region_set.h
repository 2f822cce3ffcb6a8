// RegionSet: a shard's region files: which are open, sealed or free, and which goes when room is
// needed. The sum of their lengths never exceeds the shard's share of --disk, and files are not
// made when the file system has less than the reserve left.
//
// Concurrency: the loop's thread only. Regions live, at the same address, as long as the set.
#pragma once

#include <map>
#include <optional>
#include <set>

#include "kvstore/disk/region.h"
#include "kvstore/disk/region_loader.h"
#include "kvstore/disk/tier_context.h"

namespace ember::kv {

class RegionSet {
 public:
  explicit RegionSet(TierContext* context);
  ~RegionSet();

  // Opens every region file of the shard and puts what it holds into the engine's index. Files that
  // can't be used are free from then on, and a log line says why.
  io::Task<Status> Load(CatalogContents catalog);

  // The region that records are appended to, if there is one.
  Region* open() { return open_; }
  // Makes another one the open region: a free one, a new file, or the coldest after its eviction.
  // The region that was open must be sealed or written off before. kNoSpace: none can be had now.
  io::Task<Status> OpenNext();
  // The open region takes no more records; Seal it when its last write has ended.
  void StopAppending();
  // Its last write has ended: writes its footer. It stays readable all the time.
  io::Task<void> Seal(Region* region);
  // The disk refused a write to it.
  void WriteOff(Region* region, const Status& why);
  // Data written so far is durable: the catalog may say so. `region->unsynced` is emptied.
  io::Task<Status> Sync(Region* region);

  // Evicts regions while as many segments are listed as may be.
  void KeepListBounded();
  Region* Find(uint32_t id);
  // Regions with data that is not durable yet.
  std::vector<Region*> Unsynced();
  // What was read there is not what was written, or can't be read: the copy is dropped and counted.
  void DropBad(const DiskEntry& where, const Status& why);
  // Region files that are gone from the folder, though this process still has them open.
  void DropVanished();
  uint64_t total_bytes() const { return total_bytes_; }
  bool empty() const { return regions_.empty(); }
  // Any record that the files carried had been stamped with a purge epoch of at most this.
  uint64_t highest_epoch() const { return highest_epoch_; }

 private:
  struct Found {
    Region* region;
    LoadedRegion loaded;
    bool has_row;  // in the catalog
  };
  io::Task<std::optional<LoadedRegion>> LoadOne(uint32_t id, const CatalogContents::Region* row);
  void Adopt(const Found& found);
  void ShrinkToCapacity();
  Result<Region*> NewFile();
  Region* TakeFree();
  void Evict(uint32_t id);
  void Discard(Region* region);
  io::Task<Status> Begin(Region* region);
  io::Task<Status> WriteFooter(Region* region, const std::vector<PlacedRecord>& records);
  void SetState(Region* region, Region::State state);
  Gauge* GaugeOf(Region::State state) const;

  TierContext* const context_;
  std::map<uint32_t, Region> regions_;
  std::set<uint32_t> unopened_;  // files that could not be opened: another run may read them
  Region* open_ = nullptr;
  uint64_t total_bytes_ = 0;
  uint64_t last_sequence_ = 0;
  uint32_t last_tried_ = 0;
  uint64_t highest_epoch_ = 0;
};

}  // namespace ember::kv
