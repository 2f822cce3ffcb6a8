#include "kvstore/engine/shard_engine.h"

#include <algorithm>

namespace ember::kv {

ShardEngine::ShardEngine(EngineOptions options, SegmentMemory* memory,
                         std::unique_ptr<EvictionPolicy> policy, const Clock* clock,
                         const WallClock* wall_clock, RandomSource* random, EngineMetrics* metrics)
    : options_(options),
      clock_(clock),
      wall_clock_(wall_clock),
      random_(random),
      metrics_(metrics),
      index_(memory, std::move(policy), options.forgotten_keys, metrics),
      tombstones_(options.max_tombstones),
      ttl_(options.ttl, options.max_ttl_overrides) {}

ShardEngine::~ShardEngine() {
  for (uint64_t id : leases_.DueAt(TimePoint::max())) Release(id);
}

void ShardEngine::SetObserver(EngineObserver* observer) {
  observer_ = observer;
  index_.SetObserver(observer);
}

// ---- put

namespace {

// By the header's own account: every block has as many tokens.
uint32_t TokensBefore(const SegmentHeader& header) {
  if (header.block_count == 0) return 0;
  const uint64_t tokens_per_block = header.tokens.size() / header.block_count;
  return static_cast<uint32_t>(
      std::min<uint64_t>(header.first_block * tokens_per_block, UINT32_MAX));
}

}  // namespace

StatusCode ShardEngine::Refusal(const SegmentHeader& header, size_t header_length) const {
  const uint64_t capacity = index_.memory().capacity();
  if (header.payload_length == 0 || header.payload_length > options_.max_segment_bytes ||
      header.payload_length + header_length > capacity || header.rank >= header.rank_count) {
    return StatusCode::kInvalid;
  }
  if (attempts_.size() >= options_.max_attempts) return StatusCode::kBusy;
  const auto limit = static_cast<uint64_t>(options_.max_reserved_share * capacity);
  // One put is always let in, however large.
  if (reserved_bytes_ > 0 && reserved_bytes_ + header.payload_length > limit) {
    return StatusCode::kBusy;
  }
  return StatusCode::kOk;
}

bool ShardEngine::KeyHasWriter(const BlockKey& key) {
  auto it = writer_of_.find(key);
  if (it == writer_of_.end()) return false;
  const Attempt* attempt = attempts_.Find(it->second);
  return clock_->Now() - attempt->last_progress < options_.takeover_after;
}

ShardEngine::Reservation ShardEngine::Reserve(OwnerId owner, ByteSpan encoded_header) {
  Result<SegmentHeader> header = DecodeSegmentHeader(encoded_header);
  if (!header.ok()) {
    metrics_->put_invalid.Add();
    return {.code = header.status().code()};
  }
  MissReason reason;
  if (Entry* entry = Lookup(header->key, &reason)) {
    index_.Touch(entry);
    OfferBelow(entry, /*used_again=*/true);
    metrics_->put_have.Add();
    return {.have = true, .key = header->key};
  }
  if (const DiskEntry* entry = FindOnDisk(header->key, &reason)) {
    disk_.CountUse(*entry);
    metrics_->put_have.Add();
    return {.have = true, .key = header->key};
  }
  StatusCode refusal = Refusal(*header, encoded_header.size());
  if (refusal == StatusCode::kOk && KeyHasWriter(header->key)) refusal = StatusCode::kBusy;
  if (refusal != StatusCode::kOk) {
    (refusal == StatusCode::kBusy ? metrics_->put_busy : metrics_->put_invalid).Add();
    return {.code = refusal};
  }
  std::optional<Extent> extent = index_.Allocate(header->payload_length + encoded_header.size());
  if (!extent) {
    metrics_->put_no_space.Add();
    return {.code = StatusCode::kNoSpace};
  }
  return {.token = OpenAttempt(owner, *header, encoded_header, *extent)};
}

AttemptToken ShardEngine::OpenAttempt(OwnerId owner, const SegmentHeader& header,
                                      ByteSpan encoded_header, const Extent& extent) {
  Attempt attempt;
  attempt.entry.key = header.key;
  attempt.entry.name = std::hash<BlockKey>()(header.key);
  attempt.entry.bytes = extent.length;
  attempt.entry.tokens = static_cast<uint32_t>(header.tokens.size());
  attempt.entry.context = TokensBefore(header);
  attempt.entry.extent = extent;
  attempt.entry.payload_length = header.payload_length;
  attempt.entry.header_length = static_cast<uint32_t>(encoded_header.size());
  attempt.entry.checksum = header.checksum;
  attempt.entry.generation = header.generation;
  attempt.entry.tenant_hash = TenantHash(header.tenant);
  attempt.entry.epoch = tombstones_.epoch();
  attempt.entry.created_ms = wall_clock_->NowMs();
  attempt.entry.expires_at = ExpiryOf(header.key.ns, attempt.entry.created_ms);
  attempt.last_progress = clock_->Now();
  const MutableByteSpan tail = index_.memory().At(extent).subspan(header.payload_length);
  std::ranges::copy(encoded_header, tail.begin());
  // What was there before must not reach the disk along with it.
  std::ranges::fill(tail.subspan(encoded_header.size()), std::byte{0});
  reserved_bytes_ += extent.length;
  const AttemptToken token{random_->Next(), random_->Next()};
  writer_of_[header.key] = token;
  attempts_.Insert(token, owner, clock_->Now() + options_.attempt_deadline, std::move(attempt));
  SetGauges();
  return token;
}

Attempt* ShardEngine::FindAttempt(OwnerId owner, const AttemptToken& token) {
  Attempt* attempt = attempts_.Find(token, owner);
  return attempt == nullptr || attempt->expired ? nullptr : attempt;
}

std::optional<BlockKey> ShardEngine::KeyOf(OwnerId owner, const AttemptToken& token) {
  const Attempt* attempt = FindAttempt(owner, token);
  if (attempt == nullptr) return std::nullopt;
  return attempt->entry.key;
}

Result<WriteGrant> ShardEngine::BeginWrite(OwnerId owner, const AttemptToken& token,
                                           uint64_t offset, uint64_t length) {
  Attempt* attempt = FindAttempt(owner, token);
  if (attempt == nullptr) return NotFoundError("no such put is open");
  EMBER_CHECK(!attempt->writing, "an owner writes one thing at a time");
  const uint64_t left = attempt->entry.payload_length - attempt->received;
  if (attempt->invalid || offset != attempt->received || length > left) {
    attempt->invalid = true;
    return InvalidError("a segment is written in order, within its length");
  }
  attempt->writing = true;
  if (offset == 0) index_.memory().Prepare(attempt->entry.extent);
  return WriteGrant(this, token, attempt,
                    index_.memory().At(attempt->entry.extent).subspan(offset, length));
}

void ShardEngine::EndWrite(const AttemptToken& token, Attempt* attempt) {
  attempt->writing = false;
  if (attempt->expired) CloseAttempt(token, attempt, /*keep_extent=*/false);
}

StatusCode ShardEngine::Verdict(const Attempt& attempt) {
  if (attempt.invalid || attempt.received != attempt.entry.payload_length) {
    metrics_->put_invalid.Add();
    return StatusCode::kInvalid;
  }
  if (attempt.hash.Digest() != attempt.entry.checksum) {
    metrics_->put_corrupt.Add();
    return StatusCode::kCorrupt;
  }
  return StatusCode::kOk;
}

StatusCode ShardEngine::Commit(OwnerId owner, const AttemptToken& token) {
  Attempt* attempt = FindAttempt(owner, token);
  if (attempt == nullptr) return StatusCode::kNotFound;
  EMBER_CHECK(!attempt->writing, "an owner does one thing at a time");
  const StatusCode verdict = Verdict(*attempt);
  MissReason reason;
  const bool have = Lookup(attempt->entry.key, &reason) != nullptr ||
                    FindOnDisk(attempt->entry.key, &reason) != nullptr;
  const bool publish = verdict == StatusCode::kOk && !have;
  if (publish) OfferBelow(index_.Publish(attempt->entry), /*used_again=*/false);
  if (verdict == StatusCode::kOk) (have ? metrics_->put_have : metrics_->put_stored).Add();
  CloseAttempt(token, attempt, /*keep_extent=*/publish);
  return verdict;
}

void ShardEngine::Abort(OwnerId owner, const AttemptToken& token) {
  Attempt* attempt = FindAttempt(owner, token);
  if (attempt == nullptr) return;
  EMBER_CHECK(!attempt->writing, "an owner does one thing at a time");
  metrics_->put_aborted.Add();
  CloseAttempt(token, attempt, /*keep_extent=*/false);
}

void ShardEngine::FreeKey(const AttemptToken& token, const Attempt& attempt) {
  auto it = writer_of_.find(attempt.entry.key);
  if (it != writer_of_.end() && it->second == token) writer_of_.erase(it);
}

void ShardEngine::CloseAttempt(const AttemptToken& token, Attempt* attempt, bool keep_extent) {
  FreeKey(token, *attempt);
  reserved_bytes_ -= attempt->entry.extent.length;
  if (!keep_extent) index_.Free(attempt->entry.extent);
  attempts_.Erase(token);
  SetGauges();
}

void ShardEngine::EndAttempt(const AttemptToken& token, Counter* how) {
  Attempt* attempt = attempts_.Find(token);
  if (attempt->expired) return;  // and its bytes are still arriving
  how->Add();
  attempt->expired = true;
  if (attempt->writing) {
    FreeKey(token, *attempt);
  } else {
    CloseAttempt(token, attempt, /*keep_extent=*/false);
  }
}

// ---- match and get

Entry* ShardEngine::Lookup(const BlockKey& key, MissReason* reason) {
  Entry* entry = index_.Find(key);
  if (entry == nullptr) {
    *reason = index_.ReasonFor(key);
    return nullptr;
  }
  // The clock costs as much as the look-up.
  if (entry->expires_at == TimePoint::max() || entry->expires_at > clock_->Now()) return entry;
  DropExpired(entry);
  *reason = MissReason::kExpired;
  return nullptr;
}

ShardEngine::Matched ShardEngine::Match(OwnerId owner, std::span<const BlockKey> keys,
                                        Duration lease) {
  Matched out;
  out.keys.reserve(keys.size());
  Lease present;
  size_t hits = 0;
  for (const BlockKey& key : keys) {
    MissReason reason;
    Entry* entry = Lookup(key, &reason);
    const DiskEntry* on_disk = entry == nullptr ? FindOnDisk(key, &reason) : nullptr;
    if (on_disk != nullptr) {
      disk_.CountUse(*on_disk);
      if (lease > Duration::zero()) present.regions.emplace_back(&disk_, on_disk->region);
      ++hits;
      out.keys.push_back({.payload_length = on_disk->record.payload_length,
                          .generation = on_disk->record.generation,
                          .tier = Tier::kDisk});
      continue;
    }
    if (entry == nullptr) {
      metrics_->misses[static_cast<size_t>(reason)]->Add();
      out.keys.push_back({.miss = reason});
      continue;
    }
    OfferBelow(entry, /*used_again=*/true);
    present.entries.push_back(entry);
    ++hits;
    out.keys.push_back({.payload_length = entry->payload_length, .generation = entry->generation});
  }
  metrics_->hits.Add(hits);
  const std::vector<Entry*> entries = present.entries;
  if (lease > Duration::zero() && hits > 0) {
    out.lease_id = TakeLease(owner, std::move(present), lease);
  }
  // The end of a lease counts as the use.
  if (out.lease_id == 0) std::ranges::for_each(entries, [&](Entry* e) { index_.Touch(e); });
  return out;
}

ShardEngine::Found ShardEngine::Get(const BlockKey& key) {
  MissReason reason;
  Entry* entry = Lookup(key, &reason);
  if (entry == nullptr && FindOnDisk(key, &reason) != nullptr) return {.on_disk = true};
  CountLookup(entry == nullptr ? reason : MissReason::kNone);
  if (entry == nullptr) return {.miss = reason};
  OfferBelow(entry, /*used_again=*/true);
  return {.pin = Pin(&index_, entry)};
}

bool ShardEngine::ReportCorrupt(const BlockKey& key, const GenerationId& generation) {
  Entry* entry = index_.Find(key);
  if (entry == nullptr || entry->generation != generation) return false;
  if (Xxh3Of(index_.Payload(*entry)) == entry->checksum) {
    metrics_->false_corruptions.Add();
    return false;
  }
  metrics_->corruptions.Add();
  index_.Drop(entry, MissReason::kCorrupt);
  return true;
}

// ---- purge and time to live

size_t ShardEngine::Purge(const PurgeScope& scope, uint64_t epoch) {
  tombstones_.Add(scope, epoch);
  const auto covered = [&](const Entry& entry) {
    return entry.epoch < epoch && scope.Covers(entry.key.ns, entry.tenant_hash);
  };
  for (const AttemptToken& token : attempts_.DueAt(TimePoint::max())) {
    if (covered(attempts_.Find(token)->entry)) EndAttempt(token, &metrics_->put_purged);
  }
  size_t dropped = 0;
  index_.Visit(0, SIZE_MAX, [&](Entry* entry) {
    if (!covered(*entry)) return;
    index_.Drop(entry, MissReason::kPurged);
    ++dropped;
  });
  dropped += PurgeDisk(scope, epoch);
  metrics_->purges.Add();
  metrics_->purged_segments.Add(dropped);
  if (observer_ != nullptr) observer_->Purged(scope, epoch);
  SetGauges();
  return dropped;
}

Status ShardEngine::SetTtl(const NamespaceId& ns, std::optional<Duration> ttl) {
  EMBER_RETURN_IF_ERROR(ttl_.Set(ns, ttl));
  const auto renew = [&](Entry* entry) {
    if (entry->key.ns == ns) entry->expires_at = ExpiryOf(ns, entry->created_ms);
  };
  index_.Visit(0, SIZE_MAX, renew);
  for (const AttemptToken& token : attempts_.DueAt(TimePoint::max())) {
    renew(&attempts_.Find(token)->entry);
  }
  return OkStatus();
}

TimePoint ShardEngine::ExpiryOf(const NamespaceId& ns, int64_t created_ms) const {
  return ttl_.ExpiryOf(ns, created_ms, clock_->Now(), wall_clock_->NowMs());
}

void ShardEngine::DropExpired(Entry* entry) {
  metrics_->expired_segments.Add();
  index_.Drop(entry, MissReason::kExpired);
}

uint64_t ShardEngine::VisitStored(
    uint64_t cursor, size_t limit,
    const std::function<void(const BlockKey&, const GenerationId&)>& visit) {
  return index_.Visit(cursor, limit, [&](Entry* entry) { visit(entry->key, entry->generation); });
}

// ---- ends

void ShardEngine::Disconnect(OwnerId owner) {
  for (const AttemptToken& token : attempts_.OwnedBy(owner)) {
    Attempt* attempt = attempts_.Find(token);
    EMBER_CHECK(!attempt->writing, "the owner still holds a WriteGrant");
    if (!attempt->expired) metrics_->put_aborted.Add();
    CloseAttempt(token, attempt, /*keep_extent=*/false);
  }
  for (uint64_t id : leases_.OwnedBy(owner)) Release(id);
}

void ShardEngine::ExpireDue() {
  const TimePoint now = clock_->Now();
  for (const AttemptToken& token : attempts_.DueAt(now)) EndAttempt(token, &metrics_->put_expired);
  for (uint64_t id : leases_.DueAt(now)) Release(id);
  sweep_cursor_ = index_.Visit(sweep_cursor_, options_.sweep_extents, [&](Entry* entry) {
    if (entry->expires_at <= now) DropExpired(entry);
  });
  SweepDisk();
}

void ShardEngine::SetGauges() {
  metrics_->attempts_open.Set(static_cast<double>(attempts_.size()));
  metrics_->leases_open.Set(static_cast<double>(leases_.size()));
  metrics_->tombstones.Set(static_cast<double>(tombstones_.all().size()));
  metrics_->purge_epoch.Set(static_cast<double>(tombstones_.epoch()));
}

}  // namespace ember::kv
