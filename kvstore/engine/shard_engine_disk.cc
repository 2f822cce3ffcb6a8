// ShardEngine: what it knows and does about the tier below the memory.
#include "kvstore/engine/promotion.h"
#include "kvstore/engine/shard_engine.h"

namespace ember::kv {

void ShardEngine::OfferBelow(Entry* entry, bool used_again) {
  if (lower_tier_ == nullptr || entry->offered) return;
  entry->offered = disk_.Find(entry->key) != nullptr ||
                   lower_tier_->Offer(entry->key, entry->extent.length, used_again);
}

const DiskEntry* ShardEngine::FindOnDisk(const BlockKey& key, MissReason* reason) {
  const DiskEntry* entry = disk_.Find(key);
  if (entry == nullptr) {
    *reason = index_.ReasonFor(key);
    return nullptr;
  }
  if (ExpiryOf(key.ns, entry->record.created_ms) > clock_->Now()) return entry;
  metrics_->expired_segments.Add();
  DropFromDisk(key, MissReason::kExpired);
  *reason = MissReason::kExpired;
  return nullptr;
}

bool ShardEngine::AddToDisk(const SegmentRecord& record, RegionId region, uint64_t offset) {
  if (IsPurged(record.key.ns, record.tenant_hash, record.purge_epoch)) return false;
  if (ExpiryOf(record.key.ns, record.created_ms) <= clock_->Now()) return false;
  if (!disk_.Insert(record, region, offset)) return false;
  if (observer_ != nullptr) observer_->Stored(record.key, Tier::kDisk, record.generation);
  return true;
}

void ShardEngine::DropFromDisk(const BlockKey& key, MissReason reason) {
  const GenerationId generation = disk_.Find(key)->record.generation;
  disk_.Erase(key);
  NoteGoneFromDisk(key, generation, reason);
}

void ShardEngine::NoteGoneFromDisk(const BlockKey& key, const GenerationId& generation,
                                   MissReason reason) {
  if (Entry* entry = index_.Find(key)) {
    entry->offered = false;  // it is in memory only again
  } else {
    index_.Remember(key, reason);
  }
  if (observer_ != nullptr) observer_->Removed(key, Tier::kDisk, generation, reason);
}

void ShardEngine::EvictRegion(RegionId region,
                              const std::function<void(const DiskEntry&)>& evicted) {
  disk_.RemoveRegion(region, [&](const DiskEntry& entry) {
    NoteGoneFromDisk(entry.record.key, entry.record.generation, MissReason::kEvicted);
    evicted(entry);
  });
}

size_t ShardEngine::PurgeDisk(const PurgeScope& scope, uint64_t epoch) {
  size_t dropped = 0;
  for (size_t slot = 0; slot < disk_.slots(); ++slot) {
    const DiskEntry* entry = disk_.At(slot);
    if (entry == nullptr || entry->record.purge_epoch >= epoch) continue;
    if (!scope.Covers(entry->record.key.ns, entry->record.tenant_hash)) continue;
    DropFromDisk(BlockKey(entry->record.key), MissReason::kPurged);
    ++dropped;
  }
  return dropped;
}

void ShardEngine::SweepDisk() {
  for (size_t i = 0; i < options_.sweep_extents && disk_.slots() > 0; ++i) {
    disk_sweep_slot_ = (disk_sweep_slot_ + 1) % disk_.slots();
    const DiskEntry* entry = disk_.At(disk_sweep_slot_);
    MissReason reason;
    if (entry != nullptr) (void)FindOnDisk(BlockKey(entry->record.key), &reason);
  }
}

// Changes nothing, so that it may be called within VisitColdest.
std::optional<Hold> ShardEngine::HoldStored(const BlockKey& key) {
  Entry* entry = index_.Find(key);
  if (entry == nullptr || entry->expires_at <= clock_->Now()) return std::nullopt;
  return Hold(&index_, entry);
}

std::optional<Pin> ShardEngine::PinStored(const BlockKey& key) {
  MissReason reason;
  Entry* entry = Lookup(key, &reason);
  if (entry == nullptr) return std::nullopt;
  return Pin(&index_, entry);
}

void ShardEngine::VisitColdest(
    const std::function<bool(const BlockKey& key, uint64_t bytes)>& visit) const {
  index_.VisitVictims([&](const Entry& entry) { return visit(entry.key, entry.extent.length); });
}

void ShardEngine::CountLookup(MissReason miss) {
  if (miss == MissReason::kNone) {
    metrics_->hits.Add();
  } else {
    metrics_->misses[static_cast<size_t>(miss)]->Add();
  }
}

std::optional<Promotion> ShardEngine::BeginPromotion(const SegmentRecord& record) {
  std::optional<Extent> extent =
      index_.Allocate(uint64_t{record.payload_length} + record.header_length);
  if (!extent) return std::nullopt;
  index_.memory().Prepare(*extent);
  return Promotion(this, record, *extent);
}

MissReason ShardEngine::PublishPromoted(const SegmentRecord& record, const Extent& extent, Pin* pin,
                                        bool* published) {
  MissReason reason;
  if (Entry* entry = Lookup(record.key, &reason)) {
    *pin = Pin(&index_, entry);
    return MissReason::kNone;
  }
  if (IsPurged(record.key.ns, record.tenant_hash, record.purge_epoch)) return MissReason::kPurged;
  Entry entry;
  entry.key = record.key;
  entry.extent = extent;
  entry.payload_length = record.payload_length;
  entry.header_length = record.header_length;
  entry.generation = record.generation;
  entry.tenant_hash = record.tenant_hash;
  entry.epoch = record.purge_epoch;
  entry.created_ms = record.created_ms;
  entry.expires_at = ExpiryOf(record.key.ns, record.created_ms);
  if (entry.expires_at <= clock_->Now()) return MissReason::kExpired;
  Result<SegmentHeader> header = DecodeSegmentHeader(index_.Header(entry));
  if (!header.ok()) return MissReason::kCorrupt;
  entry.checksum = header->checksum;
  entry.offered = disk_.Find(record.key) != nullptr;
  *published = true;
  *pin = Pin(&index_, index_.Publish(entry));
  return MissReason::kNone;
}

// ---- Promotion

Promotion::~Promotion() {
  if (engine_ != nullptr) engine_->index_.Free(extent_);
}

MutableByteSpan Promotion::memory() const { return engine_->index_.memory().At(extent_); }

MissReason Promotion::Publish(Pin* pin) {
  bool published = false;
  const MissReason miss = engine_->PublishPromoted(record_, extent_, pin, &published);
  if (published) engine_ = nullptr;
  return miss;
}

}  // namespace ember::kv
