// GetCall: one Get. It lives on the caller's stack; nothing of it is left when Run returns.
//
// Operation: rounds. In each, every segment still wanted is assigned to one owner that was not
// asked for it yet, all owners are asked in parallel on the loop, and the payloads are received
// into the caller's buffers and hashed piece by piece while they are in the cache. While others
// wait for the loop, the caller's own thread hashes after the round instead, so that hashing holds
// up nobody else. A segment that failed goes into the next round with its next owner.
#pragma once

#include <optional>

#include "client/store_client/call_context.h"

namespace ember {

class GetCall {
 public:
  GetCall(CallContext& context, std::span<const GetRequest> requests, const LayoutDigest& layout,
          TimePoint deadline);
  // Blocks. Not on the loop's thread.
  GetResult Run();

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
  };
  // What one owner is asked for in one round.
  struct Share {
    std::vector<uint32_t> items;
    uint64_t bytes = 0;
    bool last_chance = false;  // some item has no other owner left
  };

  // On the loop.
  io::Task<Status> LoadRound();
  Status Place();
  bool Assign(uint32_t item, std::vector<Share>* shares);
  io::Task<void> LoadShare(size_t member, Share share, TimePoint deadline);
  io::Task<Status> LoadOn(cluster::Connection& connection, const cluster::Peer& peer,
                          const Share& share);
  io::Task<Status> Receive(cluster::Connection& connection, const cluster::Peer& peer,
                           uint64_t request_id, uint32_t index, uint32_t item);
  // What one request asks for.
  struct Batch {
    uint64_t request_id = 0;
    std::vector<uint32_t> items;
  };
  io::Task<Status> Ask(cluster::Connection& connection, const Share& share, size_t* next,
                       Batch* batch) const;
  std::vector<uint32_t> NextBatch(const Share& share, size_t* next) const;

  // On the caller's thread.
  void Verify(uint32_t item);
  MissReason WhyNot(uint32_t item, SegmentHeader* header) const;
  bool Intact(uint32_t item, const SegmentHeader& header) const;
  void Settle();

  void Miss(uint32_t item, MissReason reason) {
    items_[item].miss = MoreTelling(items_[item].miss, reason);
  }
  bool Exhausted(const Item& item) const { return item.asked + 1 == 1u << item.owners.size(); }

  CallContext& context_;
  const std::span<const GetRequest> requests_;
  const LayoutDigest& layout_;
  const TimePoint deadline_;
  std::shared_ptr<const Cluster> cluster_;
  std::vector<Item> items_;
  size_t cut_;  // the first item that is missed for good; nothing from there on is asked
  bool anything_asked_ = false;
  GetResult result_;
};

}  // namespace ember
