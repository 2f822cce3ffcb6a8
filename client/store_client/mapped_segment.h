// MappedSegment: a segment that is read where it lies, in the memory of a node on this host.
//
// Header, key, proof and token ids have been compared with what was asked for; the payload has not
// been hashed by this process (the node did when it was put, and its scrubber does again): call
// Verify where that is not enough. The node keeps the bytes where they are until the lease ends: by
// the last MappedSegment of the call that goes, or at deadline(), whatever becomes of client and
// connection. After that they may be anything, though never a fault. So who may be late hashes the
// copy, or calls Verify after the last read.
//
// Concurrency: as any value; different ones on different threads. May outlive its client.
#pragma once

#include <memory>

#include "client/cluster/mapped_arena.h"
#include "client/store_client/lease_returns.h"
#include "proto/model/segment.h"

namespace ember {

// What keeps segments of one Get in place; its end gives the lease back.
class ReadLease {
 public:
  ReadLease(std::shared_ptr<const cluster::MappedArena> arena, LeaseReturns::PeerPtr peer,
            uint64_t id, TimePoint deadline, std::shared_ptr<LeaseReturns> returns)
      : arena_(std::move(arena)),
        peer_(std::move(peer)),
        id_(id),
        deadline_(deadline),
        returns_(std::move(returns)) {}
  ReadLease(const ReadLease&) = delete;
  ReadLease& operator=(const ReadLease&) = delete;
  ~ReadLease() { returns_->Add(peer_, id_); }

  uint64_t id() const { return id_; }
  // Of this process's clock, and not after the node's own.
  TimePoint deadline() const { return deadline_; }

 private:
  const std::shared_ptr<const cluster::MappedArena> arena_;  // keeps the mapping
  const LeaseReturns::PeerPtr peer_;
  const uint64_t id_;
  const TimePoint deadline_;
  const std::shared_ptr<LeaseReturns> returns_;
};

// Move-only.
class MappedSegment {
 public:
  MappedSegment() = default;
  MappedSegment(std::shared_ptr<const ReadLease> lease, ByteSpan payload, SegmentHeader header)
      : lease_(std::move(lease)), payload_(payload), header_(std::move(header)) {}
  MappedSegment(MappedSegment&& other) noexcept = default;
  MappedSegment& operator=(MappedSegment&& other) noexcept = default;

  // False of a miss, and after it was moved from.
  bool held() const { return lease_ != nullptr; }
  // The rest is for held ones only.
  ByteSpan payload() const { return payload_; }
  const SegmentHeader& header() const { return header_; }
  // On the steady clock.
  TimePoint deadline() const { return lease_->deadline(); }
  // Hashes the payload. kCorrupt: these are not, or no longer, the bytes that were put.
  Status Verify() const;

 private:
  std::shared_ptr<const ReadLease> lease_;
  ByteSpan payload_;
  SegmentHeader header_;
};

}  // namespace ember
