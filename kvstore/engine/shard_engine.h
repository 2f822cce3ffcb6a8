// ShardEngine: one shard's store. It decides; it does no I/O and has no clock of its own.
//
// A put is two-phase: Reserve gives room and an unguessable token, BeginWrite the memory to fill,
// Commit checks the bytes against the writer's checksum and makes them visible. Keys are written
// once: the first complete put wins, later ones end as "have". A put belongs to the owner (a
// connection) that reserved it, and ends with it. Leases of Match keep segments from eviction until
// released, or their deadline, or their owner's end.
//
// Concurrency: one thread. Memory, clock, random source and metrics outlive it.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "kvstore/engine/deadline_table.h"
#include "kvstore/engine/engine_options.h"
#include "kvstore/engine/segment_index.h"
#include "kvstore/engine/write_grant.h"
#include "proto/base/random.h"
#include "proto/base/status.h"

namespace ember::kv {

class ShardEngine {
 public:
  ShardEngine(EngineOptions options, SegmentMemory* memory, std::unique_ptr<EvictionPolicy> policy,
              const Clock* clock, RandomSource* random, EngineMetrics* metrics);
  ~ShardEngine();

  struct Reservation {
    // kOk: write it. kBusy: another writer is at it, or a bound is reached. kNoSpace: what is in
    // use leaves no room. kInvalid, kCorrupt: the header, or its length over the limit.
    StatusCode code = StatusCode::kOk;
    bool have = false;  // stored already: nothing to write
    AttemptToken token;
  };
  Reservation Reserve(OwnerId owner, ByteSpan encoded_header);
  // Writes come in order: `offset` is what has been received. kNotFound: no such attempt of this
  // owner. kInvalid: out of order or past the end; the attempt can't be committed any more.
  Result<WriteGrant> BeginWrite(OwnerId owner, const AttemptToken& token, uint64_t offset,
                                uint64_t length);
  // Ends the attempt. kOk: visible, or it was there by now. kCorrupt: checksum differs. kInvalid:
  // not all written. kNotFound.
  StatusCode Commit(OwnerId owner, const AttemptToken& token);
  void Abort(OwnerId owner, const AttemptToken& token);

  struct Presence {
    MissReason miss = MissReason::kNone;  // kNone = present
    uint64_t payload_length = 0;
    GenerationId generation;
  };
  struct Matched {
    uint64_t lease_id = 0;  // 0: none asked for, nothing present, or a bound is reached
    std::vector<Presence> keys;
  };
  Matched Match(OwnerId owner, std::span<const BlockKey> keys, Duration lease);
  void Release(uint64_t lease_id);

  struct Found {
    MissReason miss = MissReason::kNone;
    Pin pin;  // held on a hit
  };
  Found Get(const BlockKey& key);
  // A reader found other bytes than the checksum says: looks itself, and drops a bad copy. True if
  // it was bad.
  bool ReportCorrupt(const BlockKey& key, const GenerationId& generation);

  // Ends what the owner left open. It must hold no WriteGrant any more.
  void Disconnect(OwnerId owner);
  // Ends what is past its deadline; call it every now and then.
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
  struct Lease {
    std::vector<Entry*> entries;
  };

  StatusCode Refusal(const SegmentHeader& header, size_t header_length) const;
  bool KeyHasWriter(const BlockKey& key);
  Attempt* FindAttempt(OwnerId owner, const AttemptToken& token);
  AttemptToken OpenAttempt(OwnerId owner, const SegmentHeader& header, ByteSpan encoded_header,
                           const Extent& extent);
  StatusCode Verdict(const Attempt& attempt);
  // Gives the key to other writers; the room too, unless `keep_extent`.
  void CloseAttempt(const AttemptToken& token, Attempt* attempt, bool keep_extent);
  void FreeKey(const AttemptToken& token, const Attempt& attempt);
  void ExpireAttempt(const AttemptToken& token);
  void EndWrite(const AttemptToken& token, Attempt* attempt);
  uint64_t TakeLease(OwnerId owner, std::vector<Entry*> entries, Duration duration);
  void SetGauges();

  const EngineOptions options_;
  const Clock* const clock_;
  RandomSource* const random_;
  EngineMetrics* const metrics_;
  SegmentIndex index_;
  DeadlineTable<AttemptToken, Attempt> attempts_;
  std::unordered_map<BlockKey, AttemptToken> writer_of_;  // the newest attempt of each open key
  DeadlineTable<uint64_t, Lease> leases_;
  uint64_t reserved_bytes_ = 0;
  uint64_t leased_bytes_ = 0;  // each segment once
  size_t leased_keys_ = 0;
};

}  // namespace ember::kv
