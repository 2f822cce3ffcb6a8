// MatchCall: one Match, from the owners' questions to the combined answer.
//
// Operation: every owner is asked in parallel. The caller is answered once nothing that is still to
// come can change the answer; questions still open then go on (they bring hints), so the call owns
// what it needs and outlives its caller.
#pragma once

#include <memory>

#include "client/store_client/call_context.h"

namespace ember {

class MatchCall : public std::enable_shared_from_this<MatchCall> {
 public:
  MatchCall(CallContext& context, std::span<const SegmentRef> segments, TimePoint deadline,
            const MatchOptions& options);
  // Blocks. Not on the loop's thread.
  MatchResult Run();

 private:
  struct Question {  // to one owner
    std::vector<uint32_t> segments;
    std::vector<uint8_t> ranks;  // the owner's place among each segment's owners
  };

  // One shard's part of the lease.
  struct ShardLease {
    std::shared_ptr<cluster::Peer> peer;
    uint64_t id;
  };

  io::Task<void> Begin();
  void AskOwners();
  io::Task<void> AskNode(std::shared_ptr<cluster::NodePeers> node,
                         std::shared_ptr<const Question> question);
  // `share.items` are places in the question.
  io::Task<void> AskShard(std::shared_ptr<const Question> question, ShardShare share);
  io::Task<Status> AskOn(cluster::Connection& connection, const Question& question,
                         const ShardShare& share, size_t* answered);
  void TakeLease(const std::shared_ptr<cluster::Peer>& peer, uint64_t lease_id);
  void Note(uint32_t segment, MissReason miss, uint64_t payload_bytes);
  void Finish();

  CallContext& context_;
  const std::vector<SegmentRef> segments_;
  const TimePoint deadline_;
  const MatchOptions options_;
  std::shared_ptr<const Cluster> cluster_;
  std::vector<uint32_t> open_;  // owners still to answer, per segment
  size_t undecided_;
  MatchResult result_;
  std::vector<ShardLease> leases_;
  bool finished_ = false;
  io::SharedLoop::Call call_;
};

}  // namespace ember
