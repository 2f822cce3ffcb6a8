// RegionSet: how a region is made durable and ends: sync, footer, or written off.
#include <spdlog/spdlog.h>

#include <algorithm>

#include "kvstore/disk/region_set.h"

namespace ember::kv {

void RegionSet::StopAppending() {
  SetState(open_, Region::State::kSealing);
  open_ = nullptr;
}

std::vector<Region*> RegionSet::Unsynced() {
  std::vector<Region*> out;
  for (auto& [id, region] : regions_) {
    if (!region.unsynced.empty()) out.push_back(&region);
  }
  return out;
}

io::Task<Status> RegionSet::Sync(Region* region) {
  const RegionPin pin(&context_->engine->disk(), region->id);
  std::vector<PlacedRecord> batch = std::exchange(region->unsynced, {});
  const TimePoint start = context_->loop->Now();
  const Status synced = co_await region->file->Sync();
  context_->metrics->sync_seconds.Observe(context_->Seconds(start));
  if (!synced.ok()) {
    // What the kernel has dropped can't be written again from here.
    for (const PlacedRecord& record : batch) {
      const DiskEntry* entry = context_->engine->disk().Find(record.segment.key);
      if (entry != nullptr && entry->region == region->id && entry->offset() == record.offset) {
        context_->engine->DropFromDisk(record.segment.key, MissReason::kCorrupt);
      }
    }
    region->sync_failed = true;
    WriteOff(region, synced);
    co_return synced;
  }
  // The kernel tells one of two syncs side by side; the other must not vouch for what it lost.
  if (region->sync_failed) co_return UnavailableError("another sync of this region failed");
  for (const PlacedRecord& record : batch) {
    region->unfinished.erase(record.offset);
    context_->catalog.PutRecord(region->id, record);
  }
  if (!batch.empty()) context_->catalog.PutRegion(region->id, region->Row());
  co_return OkStatus();
}

io::Task<void> RegionSet::Seal(Region* region) {
  EMBER_CHECK(region->state == Region::State::kSealing && region->writes == 0,
              "sealed once its last write has ended");
  const RegionPin pin(&context_->engine->disk(), region->id);
  std::vector<PlacedRecord> records;
  context_->engine->disk().ForEachIn(region->id, [&](const DiskEntry& entry) {
    records.push_back({entry.offset(), entry.record});
  });
  std::ranges::sort(records, {}, &PlacedRecord::offset);
  const Status written = co_await WriteFooter(region, records);
  if (region->state != Region::State::kSealing) co_return;  // written off meanwhile
  if (!written.ok()) {
    WriteOff(region, written);
    co_return;
  }
  SetState(region, Region::State::kSealed);
  context_->engine->disk().SetEvictable(region->id);
  // The catalog's rows are the footer's from now on. Else a segment whose purge was under way now
  // and is forgotten by a loss of power would be there by the one and not by the other.
  context_->catalog.RemoveRegion(region->id);
  for (const PlacedRecord& record : records) context_->catalog.PutRecord(region->id, record);
  context_->catalog.PutRegion(region->id, region->Row());
}

io::Task<Status> RegionSet::WriteFooter(Region* region, const std::vector<PlacedRecord>& records) {
  const Bytes footer = EncodeFooter(records);
  AlignedBuffer blocks(footer.size() + kBlockBytes);
  std::ranges::fill(blocks.span(), std::byte{0});
  std::ranges::copy(footer, blocks.span().begin());
  AlignedBuffer trailer(kBlockBytes);
  Encode(RegionTrailer{.use = {context_->options.shard, region->id, region->generation},
                       .footer_offset = region->end,
                       .footer_length = footer.size(),
                       .checksum = Xxh3Of(footer)},
         trailer.span());
  const ByteSpan body = blocks.span().first(RoundUpToBlocks(footer.size()));
  EMBER_CO_RETURN_IF_ERROR(co_await region->file->WriteAt(region->end, {&body, 1}));
  // Only now the trailer: it says that the footer is there.
  const ByteSpan last = trailer.span();
  EMBER_CO_RETURN_IF_ERROR(
      co_await region->file->WriteAt(region->length - kBlockBytes, {&last, 1}));
  co_return co_await Sync(region);
}

void RegionSet::WriteOff(Region* region, const Status& why) {
  if (region->state == Region::State::kWrittenOff) return;
  spdlog::error("region written off shard={} region={:08x} reason=\"{}\"", context_->options.shard,
                region->id, why.ToString());
  context_->metrics->written_off_regions.Add();
  if (open_ == region) open_ = nullptr;
  SetState(region, Region::State::kWrittenOff);
  context_->engine->disk().SetEvictable(region->id);
}

}  // namespace ember::kv
