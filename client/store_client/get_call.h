// GetCall: one Get. It lives on the caller's stack; nothing of it is left when Run returns.
//
// Operation: rounds. In each, every segment still wanted is assigned to one owner that was not
// asked for it yet, all owners are asked in parallel on the loop, and the payloads are received
// into the caller's buffers and hashed piece by piece while they are in the cache. While others
// wait for the loop, the caller's own thread hashes after the round instead, so that hashing holds
// up nobody else. What lies in the memory of a node on this host isn't sent at all: the node says
// where, and the caller's thread copies it. A segment that failed goes into the next round with its
// next owner.
#pragma once

#include <optional>

#include "client/store_client/call_context.h"

namespace ember {

class GetCall {
 public:
  // With `lease`: only where segments lie in the memory of nodes on this host, for so long; the
  // requests have no buffers.
  GetCall(CallContext& context, std::span<const GetRequest> requests, const LayoutDigest& layout,
          TimePoint deadline, std::optional<Duration> lease = std::nullopt);
  // Blocks. Not on the loop's thread.
  GetResult Run();

  // After Run. Of the bytes got, those that were not sent but read in shared memory.
  uint64_t mapped_bytes() const { return mapped_bytes_; }
  // After Run with `lease`: one segment, not held when it missed; once.
  MappedSegment TakeSegment(uint32_t item, SegmentHeader header);
  // Why memory that was to be read is not mapped here; OK when all was.
  const Status& unmapped() const { return unmapped_; }

 private:
  enum class Stage { kWanted, kReceived, kVerified, kMissed };
  struct Item {
    Stage stage = Stage::kWanted;
    std::vector<size_t> owners;  // members, in order
    uint32_t asked = 0;          // a bit per rank
    size_t rank = 0;             // of the owner asked last
    MissReason miss = MissReason::kNone;
    Bytes header;                      // as received
    std::optional<Checksum> checksum;  // of the buffer, when it was hashed on receive
    // When it was not sent: where it lies, and what keeps it there.
    ByteSpan mapped;
    std::shared_ptr<const ReadLease> lease;
  };
  // What one owner is asked for in one round.
  struct Share {
    std::vector<uint32_t> items;
    uint64_t bytes = 0;
    bool last_chance = false;  // some item has no other owner left
  };

  // What one request asks for.
  struct Batch {
    uint64_t request_id = 0;
    std::vector<uint32_t> items;
    TimePoint leased_until = {};
  };
  // The shard's memory, when it is mapped, and the newest lease on it.
  struct Shared {
    std::shared_ptr<const cluster::MappedArena> arena;
    std::shared_ptr<const ReadLease> lease;
  };

  // On the loop.
  io::Task<Status> LoadRound();
  Status Place();
  bool Assign(uint32_t item, std::vector<Share>* shares);
  io::Task<void> LoadShare(std::shared_ptr<cluster::NodePeers> node, Share share,
                           TimePoint deadline);
  io::Task<void> LoadFrom(ShardShare share, TimePoint deadline);
  io::Task<Status> LoadOn(cluster::Connection& connection, const ShardShare& share);
  io::Task<Status> LoadBatches(cluster::Connection& connection, const ShardShare& share,
                               Shared* shared);
  io::Task<Status> Receive(cluster::Connection& connection,
                           const std::shared_ptr<cluster::Peer>& peer, const Batch& batch,
                           uint32_t index, Shared* shared);
  io::Task<Status> Ask(cluster::Connection& connection, const ShardShare& share,
                       const Shared& shared, size_t* next, Batch* batch) const;
  std::vector<uint32_t> NextBatch(const ShardShare& share, bool in_place, size_t* next) const;
  Status ReceivePlace(const wire::GetReply& got, const std::shared_ptr<cluster::Peer>& peer,
                      TimePoint leased_until, Shared* shared, Item* item);

  // On the caller's thread.
  void CopyMapped();
  void Verify(uint32_t item);
  MissReason WhyNot(uint32_t item, SegmentHeader* header) const;
  void Settle();

  void MissAll(const std::vector<uint32_t>& items, const Status& status);

  void Miss(uint32_t item, MissReason reason) {
    items_[item].miss = MoreTelling(items_[item].miss, reason);
  }
  bool Exhausted(const Item& item) const { return item.asked + 1 == 1u << item.owners.size(); }

  CallContext& context_;
  const std::span<const GetRequest> requests_;
  const LayoutDigest& layout_;
  const TimePoint deadline_;
  const std::optional<Duration> in_place_lease_;
  bool ranges_ = false;  // some request wants one: all are sent
  std::shared_ptr<const Cluster> cluster_;
  std::vector<Item> items_;
  size_t cut_;  // the first item that is missed for good; nothing from there on is asked
  bool anything_asked_ = false;
  GetResult result_;
  uint64_t mapped_bytes_ = 0;
  Status unmapped_;
};

}  // namespace ember
