// ShardEngine: one shard's store. It decides; it does no I/O and has no clock of its own.
//
// A put is two-phase: Reserve gives room and an unguessable token, BeginWrite the memory to fill,
// Commit checks the bytes against the writer's checksum and makes them visible. Keys are written
// once: the first complete put wins, later ones end as "have". A put belongs to the owner (a
// connection) that reserved it, and ends with it. Leases of Match keep segments from eviction until
// released, or their deadline, or their owner's end; those of AddToLease have no owner.
//
// A segment whose time to live is over, or that was purged, is a miss from that moment, leased or
// not; its memory is free when nobody reads it any more.
//
// Concurrency: one thread. Memory, clocks, random source, metrics and observer outlive it.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "kvstore/engine/deadline_table.h"
#include "kvstore/engine/disk_index.h"
#include "kvstore/engine/engine_options.h"
#include "kvstore/engine/lower_tier.h"
#include "kvstore/engine/promotion.h"
#include "kvstore/engine/segment_index.h"
#include "kvstore/engine/tombstones.h"
#include "kvstore/engine/ttl_table.h"
#include "kvstore/engine/write_grant.h"
#include "proto/base/random.h"
#include "proto/base/status.h"

namespace ember::kv {

class ShardEngine {
 public:
  ShardEngine(EngineOptions options, SegmentMemory* memory, std::unique_ptr<EvictionPolicy> policy,
              const Clock* clock, const WallClock* wall_clock, RandomSource* random,
              EngineMetrics* metrics);
  ~ShardEngine();
  // Null for none.
  void SetObserver(EngineObserver* observer);

  struct Reservation {
    // kOk: write it. kBusy: another writer is at it, or a bound is reached. kNoSpace: what is in
    // use leaves no room. kInvalid, kCorrupt: the header, or its length over the limit.
    StatusCode code = StatusCode::kOk;
    bool have = false;  // stored already: nothing to write
    AttemptToken token;
    BlockKey key;  // of what is stored already
  };
  Reservation Reserve(OwnerId owner, ByteSpan encoded_header);
  // Writes come in order: `offset` is what has been received. kNotFound: no such attempt of this
  // owner. kInvalid: out of order or past the end; the attempt can't be committed any more.
  Result<WriteGrant> BeginWrite(OwnerId owner, const AttemptToken& token, uint64_t offset,
                                uint64_t length);
  // Ends the attempt. kOk: visible, or it was there by now. kCorrupt: checksum differs. kInvalid:
  // not all written. kNotFound: never opened, over by its deadline, or purged meanwhile.
  StatusCode Commit(OwnerId owner, const AttemptToken& token);
  void Abort(OwnerId owner, const AttemptToken& token);
  // Of an open put; nothing when there is no such one of this owner.
  std::optional<BlockKey> KeyOf(OwnerId owner, const AttemptToken& token);

  struct Presence {
    MissReason miss = MissReason::kNone;  // kNone = present
    uint64_t payload_length = 0;
    GenerationId generation;
    Tier tier = Tier::kMemory;  // the fastest that has it
  };
  struct Matched {
    uint64_t lease_id = 0;  // 0: none asked for, nothing present, or a bound is reached
    std::vector<Presence> keys;
  };
  Matched Match(OwnerId owner, std::span<const BlockKey> keys, Duration lease);
  void Release(uint64_t lease_id);
  // Keeps what Get found from eviction for a reader in the shared memory: adds it to the lease
  // *lease_id, or to a new one of `duration` when that is 0 or over by now. It is nobody's, for the
  // reader reads on whatever becomes of the connection it came by. False when a bound of leases is
  // reached.
  bool AddToLease(const Pin& pin, Duration duration, uint64_t* lease_id);

  struct Found {
    MissReason miss = MissReason::kNone;
    Pin pin = {};          // held on a hit
    bool on_disk = false;  // no miss: it has to be loaded, see LowerTier; not counted yet
  };
  Found Get(const BlockKey& key);
  // A reader found other bytes than the checksum says: looks itself, and drops a bad copy. True if
  // it was bad.
  bool ReportCorrupt(const BlockKey& key, const GenerationId& generation);

  // Drops what is stored of the scope and ends the puts of it that are open: they can't be
  // committed any more. What is reserved later is stored as ever. Takes time linear in what is
  // stored. `epoch`: larger than any before, the same in all shards. A purge that is repeated, or
  // comes late, takes only what was reserved before that epoch was known here. Returns segments
  // dropped.
  size_t Purge(const PurgeScope& scope, uint64_t epoch);
  // Whether a record that carries `record_epoch` was purged: a tier must not give it back.
  bool IsPurged(const NamespaceId& ns, uint64_t tenant_hash, uint64_t record_epoch) const {
    return tombstones_.Cover(ns, tenant_hash, record_epoch);
  }
  // What was purged, to be kept over a restart and purged again then.
  const Tombstones& tombstones() const { return tombstones_; }
  // A record from an earlier run carries this epoch.
  void HearOfEpoch(uint64_t epoch) { tombstones_.HearOf(epoch); }

  // Time to live of a namespace: zero = for ever, nothing = EngineOptions::ttl again. Holds for
  // what is stored already, too. kBusy when too many namespaces have their own; kInvalid when
  // negative.
  Status SetTtl(const NamespaceId& ns, std::optional<Duration> ttl);
  // When a record made at `created_ms` (wall clock) ends; TimePoint::max() for never.
  TimePoint ExpiryOf(const NamespaceId& ns, int64_t created_ms) const;

  // Calls `visit` with the segments stored among the next `limit` extents, for a snapshot in steps:
  // begin with cursor 0, go on with what is returned until that is 0. What comes and goes meanwhile
  // is in the observer's calls.
  uint64_t VisitStored(uint64_t cursor, size_t limit,
                       const std::function<void(const BlockKey&, const GenerationId&)>& visit);

  // ---- the tier below the memory. Segments there are found by Match and Reserve as those in
  // memory.

  // Null for none.
  void SetLowerTier(LowerTier* tier) { lower_tier_ = tier; }
  DiskIndex& disk() { return disk_; }
  // Null: a miss, for *reason. What has expired leaves the index here.
  const DiskEntry* FindOnDisk(const BlockKey& key, MissReason* reason);
  // A record lies there. False, and it is not listed: it was purged, has expired, or is there
  // already.
  bool AddToDisk(const SegmentRecord& record, RegionId region, uint64_t offset);
  // It must be listed.
  void DropFromDisk(const BlockKey& key, MissReason reason);
  void EvictRegion(RegionId region, const std::function<void(const DiskEntry&)>& evicted);
  bool IsStored(const BlockKey& key) { return index_.Find(key) != nullptr; }
  // Of a segment in memory; nothing if it isn't there. Neither is counted as a get.
  std::optional<Hold> HoldStored(const BlockKey& key);
  std::optional<Pin> PinStored(const BlockKey& key);
  // The segments in memory that may be evicted, the first to go first, until `visit` returns false.
  void VisitColdest(const std::function<bool(const BlockKey& key, uint64_t bytes)>& visit) const;
  // Room for a segment that is read from below. Nothing when what is in use leaves none.
  std::optional<Promotion> BeginPromotion(const SegmentRecord& record);
  // How a Get that found a segment on disk has ended.
  void CountLookup(MissReason miss);
  const SegmentMemory& memory() const { return index_.memory(); }

  // Ends what the owner left open. It must hold no WriteGrant any more.
  void Disconnect(OwnerId owner);
  // Ends what is past its deadline, and looks through a part of what is stored for segments whose
  // time to live is over; call it every now and then.
  void ExpireDue();

  size_t segments() const { return index_.size(); }
  size_t attempts() const { return attempts_.size(); }
  size_t leases() const { return leases_.size(); }
  size_t pinned() const { return index_.pinned(); }
  uint64_t reserved_bytes() const { return reserved_bytes_; }
  const EngineOptions& options() const { return options_; }
  const Clock& clock() const { return *clock_; }

 private:
  friend class WriteGrant;
  friend class Promotion;
  struct Lease {
    std::vector<Entry*> entries;
    std::vector<RegionPin> regions;  // of segments that were on disk only
    size_t keys() const { return entries.size() + regions.size(); }
  };

  // Null: a miss, for *reason.
  Entry* Lookup(const BlockKey& key, MissReason* reason);
  void DropExpired(Entry* entry);
  StatusCode Refusal(const SegmentHeader& header, size_t header_length) const;
  bool KeyHasWriter(const BlockKey& key);
  Attempt* FindAttempt(OwnerId owner, const AttemptToken& token);
  AttemptToken OpenAttempt(OwnerId owner, const SegmentHeader& header, ByteSpan encoded_header,
                           const Extent& extent);
  StatusCode Verdict(const Attempt& attempt);
  // Gives the key to other writers; the room too, unless `keep_extent`.
  void CloseAttempt(const AttemptToken& token, Attempt* attempt, bool keep_extent);
  void FreeKey(const AttemptToken& token, const Attempt& attempt);
  // For everybody but a WriteGrant that is out; `how` counts it.
  void EndAttempt(const AttemptToken& token, Counter* how);
  void EndWrite(const AttemptToken& token, Attempt* attempt);
  uint64_t TakeLease(OwnerId owner, Lease lease, Duration duration);
  void OfferBelow(Entry* entry, bool used_again);
  void NoteGoneFromDisk(const BlockKey& key, const GenerationId& generation, MissReason reason);
  size_t PurgeDisk(const PurgeScope& scope, uint64_t epoch);
  void SweepDisk();
  MissReason PublishPromoted(const SegmentRecord& record, const Extent& extent, Pin* pin,
                             bool* published);
  bool MayLease(std::span<Entry* const> entries, size_t more_keys) const;
  void PinForLease(Entry* entry);
  void SetGauges();

  const EngineOptions options_;
  const Clock* const clock_;
  const WallClock* const wall_clock_;
  RandomSource* const random_;
  EngineMetrics* const metrics_;
  SegmentIndex index_;
  DiskIndex disk_;
  LowerTier* lower_tier_ = nullptr;
  Tombstones tombstones_;
  TtlTable ttl_;
  EngineObserver* observer_ = nullptr;
  uint64_t sweep_cursor_ = 0;
  size_t disk_sweep_slot_ = 0;
  DeadlineTable<AttemptToken, Attempt> attempts_;
  std::unordered_map<BlockKey, AttemptToken> writer_of_;  // the newest attempt of each open key
  DeadlineTable<uint64_t, Lease> leases_;
  uint64_t reserved_bytes_ = 0;
  uint64_t leased_bytes_ = 0;  // each segment once
  size_t leased_keys_ = 0;
};

}  // namespace ember::kv
