#include "kvstore/disk/region_set.h"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "kvstore/disk/data_directory.h"
#include "kvstore/disk/segment_check.h"

namespace ember::kv {

RegionSet::RegionSet(TierContext* context) : context_(context) {
  context_->metrics->capacity_bytes.Add(static_cast<double>(context_->options.capacity_bytes));
}

RegionSet::~RegionSet() {
  for (auto& [id, region] : regions_) GaugeOf(region.state)->Add(-1);
  context_->metrics->region_bytes.Add(-static_cast<double>(total_bytes_));
  context_->metrics->capacity_bytes.Add(-static_cast<double>(context_->options.capacity_bytes));
}

Gauge* RegionSet::GaugeOf(Region::State state) const {
  switch (state) {
    case Region::State::kFree:
      return &context_->metrics->regions_free;
    case Region::State::kOpen:
    case Region::State::kSealing:
      return &context_->metrics->regions_open;
    case Region::State::kSealed:
    case Region::State::kWrittenOff:
      return &context_->metrics->regions_sealed;
  }
  return nullptr;
}

void RegionSet::SetState(Region* region, Region::State state) {
  GaugeOf(region->state)->Add(-1);
  GaugeOf(state)->Add(1);
  region->state = state;
}

Region* RegionSet::Find(uint32_t id) {
  auto it = regions_.find(id);
  return it == regions_.end() ? nullptr : &it->second;
}

// ---- start

io::Task<Status> RegionSet::Load(CatalogContents catalog) {
  const DiskOptions& options = context_->options;
  const std::string folder = ShardFolder(options.directory, options.shard);
  Result<std::vector<io::FolderEntry>> entries = context_->files().List(folder);
  if (!entries.ok()) co_return entries.status();
  std::vector<Found> found;
  for (const io::FolderEntry& entry : *entries) {
    const std::optional<uint32_t> id = RegionOfName(entry.name);
    if (!id) continue;
    auto row = catalog.regions.find(*id);
    const bool has_row = row != catalog.regions.end();
    std::optional<LoadedRegion> loaded = co_await LoadOne(*id, has_row ? &row->second : nullptr);
    if (loaded) found.push_back({&regions_.at(*id), *std::move(loaded), has_row});
    if (has_row) catalog.regions.erase(row);
  }
  // The newest first: of two records of one key, the later is the one that counts.
  std::ranges::sort(found, std::greater(), [](const Found& f) { return f.loaded.header.sequence; });
  for (const Found& region : found) Adopt(region);
  for (const auto& [id, gone] : catalog.regions) {
    spdlog::warn("region file is gone shard={} region={:08x} segments={}", options.shard, id,
                 gone.records.size());
    context_->metrics->lost_records.Add(gone.records.size());
    context_->catalog.RemoveRegion(id);
  }
  ShrinkToCapacity();
  KeepListBounded();
  co_return OkStatus();
}

// Nothing: the file can't be used as it is.
io::Task<std::optional<LoadedRegion>> RegionSet::LoadOne(uint32_t id,
                                                         const CatalogContents::Region* row) {
  const DiskOptions& options = context_->options;
  const std::string path = RegionPath(options.directory, options.shard, id);
  auto file = context_->files().Open(path, {.write = true, .direct = true});
  if (!file.ok()) {
    spdlog::error("region file is left alone reason=\"{}\"", file.status().ToString());
    unopened_.insert(id);
    total_bytes_ += options.region_bytes;  // as far as can be known
    context_->metrics->region_bytes.Add(static_cast<double>(options.region_bytes));
    co_return std::nullopt;
  }
  Region& region = regions_[id];
  region.id = id;
  region.file = *std::move(file);
  if (Result<uint64_t> size = region.file->Size(); size.ok()) region.length = *size;
  total_bytes_ += region.length;
  context_->metrics->region_bytes.Add(static_cast<double>(region.length));
  context_->metrics->regions_free.Add(1);
  Result<LoadedRegion> loaded =
      co_await LoadRegion(region.file.get(), options.shard, id, options.identity.Digest(), row);
  // Found is not durable: a process that was killed leaves what it wrote to the page cache. Only
  // what the catalog calls sealed has been synced for sure.
  if (loaded.ok() && loaded->source != LoadedRegion::Source::kCatalog) {
    if (const Status synced = co_await region.file->Sync(); !synced.ok()) loaded = synced;
  }
  if (loaded.ok()) co_return *std::move(loaded);
  if (loaded.status().code() == StatusCode::kUnavailable) {
    // It may be readable again another time: neither read nor written in this run.
    spdlog::error("region can't be read path={} reason=\"{}\"", path, loaded.status().ToString());
    SetState(&region, Region::State::kWrittenOff);
  } else if (loaded.status().code() != StatusCode::kNotFound) {
    spdlog::warn("region is not used, its file will be written again path={} reason=\"{}\"", path,
                 loaded.status().ToString());
    if (row != nullptr) context_->metrics->lost_records.Add(row->records.size());
    context_->catalog.RemoveRegion(id);
  }
  co_return std::nullopt;
}

void RegionSet::Adopt(const Found& found) {
  Region* region = found.region;
  const LoadedRegion& loaded = found.loaded;
  if (loaded.damaged > 0) {
    spdlog::warn("records dropped at start shard={} region={:08x} damaged={}",
                 context_->options.shard, region->id, loaded.damaged);
  }
  region->generation = loaded.header.use.generation;
  region->sequence = loaded.header.sequence;
  region->end = loaded.end;
  region->records = loaded.records.size();
  last_sequence_ = std::max(last_sequence_, region->sequence);
  context_->engine->disk().AddRegion(region->id, region->sequence);
  for (auto record = loaded.records.rbegin(); record != loaded.records.rend(); ++record) {
    highest_epoch_ = std::max(highest_epoch_, record->segment.purge_epoch);
    context_->engine->AddToDisk(record->segment, region->id, record->offset);
  }
  // Appending goes on in the newest; what else was open stays as it is until it is evicted. So does
  // a region without its header: nothing says whose records they are when the catalog is lost, too.
  const bool append =
      !loaded.sealed && !loaded.header_lost && open_ == nullptr && region->HasRoom(kBlockBytes);
  SetState(region, append          ? Region::State::kOpen
                   : loaded.sealed ? Region::State::kSealed
                                   : Region::State::kWrittenOff);
  if (append) {
    open_ = region;
  } else {
    context_->engine->disk().SetEvictable(region->id);
  }
  if (loaded.source == LoadedRegion::Source::kCatalog) return;
  if (found.has_row) context_->catalog.RemoveRegion(region->id);
  for (const PlacedRecord& record : loaded.records) context_->catalog.PutRecord(region->id, record);
  context_->catalog.PutRegion(region->id, region->Row());
}

// --disk may be less than last time.
void RegionSet::ShrinkToCapacity() {
  while (total_bytes_ > context_->options.capacity_bytes) {
    Region* free = TakeFree();
    if (free == nullptr) {
      const std::optional<RegionId> coldest = context_->engine->disk().Coldest();
      if (!coldest) return;
      Evict(*coldest);
      continue;
    }
    Discard(free);
  }
}

void RegionSet::Discard(Region* region) {
  const std::string path = region->file->path();
  total_bytes_ -= region->length;
  context_->metrics->region_bytes.Add(-static_cast<double>(region->length));
  GaugeOf(region->state)->Add(-1);
  regions_.erase(region->id);
  (void)context_->files().Remove(path);
}

void RegionSet::KeepListBounded() {
  while (context_->engine->disk().size() >= context_->options.max_segments) {
    const std::optional<RegionId> coldest = context_->engine->disk().Coldest();
    if (!coldest) return;
    Evict(*coldest);
  }
}

// ---- opening

// Not the one that was tried last, if there is another: the disk may have bad places.
Region* RegionSet::TakeFree() {
  Region* first = nullptr;
  for (auto& [id, region] : regions_) {
    if (region.state != Region::State::kFree) continue;
    if (first == nullptr) first = &region;
    if (id > last_tried_) {
      first = &region;
      break;
    }
  }
  if (first != nullptr) last_tried_ = first->id;
  return first;
}

Result<Region*> RegionSet::NewFile() {
  const DiskOptions& options = context_->options;
  if (total_bytes_ + options.region_bytes > options.capacity_bytes) {
    return NoSpaceError("--disk is used up");
  }
  const std::string folder = ShardFolder(options.directory, options.shard);
  Result<io::DiskSpace> space = context_->files().FreeBytes(folder);
  if (!space.ok()) return space.status();
  const uint64_t reserve = std::min(options.min_free_bytes, space->total_bytes / 100);
  if (space->free_bytes < options.region_bytes + reserve) {
    return NoSpaceError("the file system has " + std::to_string(space->free_bytes >> 20) +
                        " MiB left");
  }
  uint32_t id = 0;
  while (regions_.contains(id) || unopened_.contains(id)) ++id;
  const std::string path = RegionPath(options.directory, options.shard, id);
  auto file = context_->files().Open(path, {.create = true, .write = true, .direct = true});
  if (!file.ok()) return file.status();
  Status made = (*file)->Allocate(options.region_bytes);
  // What is acknowledged in it must be found by its name after a loss of power.
  if (made.ok()) made = context_->files().SyncFolder(folder);
  if (!made.ok()) {
    (void)context_->files().Remove(path);
    return made;
  }
  Region& region = regions_[id];
  region.id = id;
  region.file = *std::move(file);
  region.length = options.region_bytes;
  total_bytes_ += region.length;
  context_->metrics->region_bytes.Add(static_cast<double>(region.length));
  context_->metrics->regions_free.Add(1);
  return &region;
}

void RegionSet::Evict(uint32_t id) {
  Region& region = regions_.at(id);
  context_->engine->EvictRegion(id, [this](const DiskEntry& entry) {
    context_->metrics->evicted_segments.Add();
    context_->metrics->evicted_bytes.Add(entry.record.payload_length);
  });
  context_->metrics->evicted_regions.Add();
  context_->catalog.RemoveRegion(id);
  SetState(&region, Region::State::kFree);
}

io::Task<Status> RegionSet::OpenNext() {
  Region* region = nullptr;
  while (region == nullptr) {
    region = TakeFree();
    if (region == nullptr) {
      Result<Region*> made = NewFile();
      if (!made.ok() && made.status().code() != StatusCode::kNoSpace) co_return made.status();
      if (made.ok()) {
        region = *made;
      } else {
        const std::optional<RegionId> coldest = context_->engine->disk().Coldest();
        if (!coldest) co_return made.status();
        Evict(*coldest);
        context_->engine->disk().FadeHeat();
        region = &regions_.at(*coldest);
      }
    }
    if (region->length == context_->options.region_bytes) break;
    Discard(region);  // of another size than is wanted now
    region = nullptr;
  }
  co_return co_await Begin(region);
}

// Writes the header of a new use. It becomes durable with the first record that does.
io::Task<Status> RegionSet::Begin(Region* region) {
  do {
    region->generation = context_->random->Next();
  } while (region->generation == 0);
  region->sequence = ++last_sequence_;
  region->end = kBlockBytes;
  region->records = 0;
  region->unfinished.clear();
  region->unsynced.clear();
  region->sync_failed = false;
  SetState(region, Region::State::kSealing);  // nobody else may take it meanwhile
  AlignedBuffer block(kBlockBytes);
  Encode(RegionHeader{.use = {context_->options.shard, region->id, region->generation},
                      .sequence = region->sequence,
                      .length = region->length,
                      .owner = context_->options.identity.Digest()},
         block.span());
  const ByteSpan part = block.span();
  const Status written = co_await region->file->WriteAt(0, {&part, 1});
  if (!written.ok()) {
    SetState(region, Region::State::kFree);
    co_return written;
  }
  context_->engine->disk().AddRegion(region->id, region->sequence);
  SetState(region, Region::State::kOpen);
  context_->catalog.RemoveRegion(region->id);  // whatever an earlier use has left there
  context_->catalog.PutRegion(region->id, region->Row());
  open_ = region;
  co_return OkStatus();
}

// ---- what turns out to be bad

// The copy is dropped, unless a newer one has taken its place meanwhile.
void RegionSet::DropBad(const DiskEntry& where, const Status& why) {
  if (why.code() == StatusCode::kCorrupt) {
    context_->metrics->corruptions.Add();
  } else {
    context_->metrics->read_errors.Add();
  }
  spdlog::error("segment on disk dropped shard={} region={:08x} offset={} key={} reason=\"{}\"",
                context_->options.shard, where.region, where.offset(), KeyPrefix(where.record.key),
                why.ToString());
  const DiskEntry* now = context_->engine->disk().Find(where.record.key);
  if (now == nullptr || now->region != where.region || now->offset() != where.offset()) return;
  context_->engine->DropFromDisk(where.record.key, MissReason::kCorrupt);
  context_->catalog.RemoveRecord(where.region, where.offset());
}

void RegionSet::DropVanished() {
  const DiskOptions& options = context_->options;
  Result<std::vector<io::FolderEntry>> entries =
      context_->files().List(ShardFolder(options.directory, options.shard));
  if (!entries.ok()) return;
  std::set<uint32_t> present;
  for (const io::FolderEntry& entry : *entries) {
    if (std::optional<uint32_t> id = RegionOfName(entry.name)) present.insert(*id);
  }
  for (auto it = regions_.begin(); it != regions_.end();) {
    Region& region = (it++)->second;
    const DiskIndex::Region* indexed = context_->engine->disk().FindRegion(region.id);
    const bool idle = &region != open_ && region.state != Region::State::kSealing &&
                      (indexed == nullptr || indexed->pins == 0);
    if (present.contains(region.id)) continue;
    // What is acknowledged in it from now on would be lost; it is dropped by the next pass.
    if (&region == open_) WriteOff(&region, UnavailableError("the region file is gone"));
    if (!idle) continue;
    spdlog::warn("region file is gone shard={} region={:08x}", options.shard, region.id);
    if (indexed != nullptr) {
      context_->metrics->lost_records.Add(indexed->entries);
      Evict(region.id);
    }
    Discard(&region);
  }
}

}  // namespace ember::kv
