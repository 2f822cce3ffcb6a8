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
  MatchCall(CallContext& context, std::span<const SegmentRef> segments, TimePoint deadline);
  // Blocks. Not on the loop's thread.
  MatchResult Run();

 private:
  struct Question {  // to one owner
    std::vector<uint32_t> segments;
    std::vector<uint8_t> ranks;  // the owner's place among each segment's owners
  };

  io::Task<void> Begin();
  void AskOwners();
  io::Task<void> Ask(size_t member, Question question);
  io::Task<Status> AskOn(cluster::Connection& connection, const cluster::Peer& peer,
                         const Question& question, size_t* answered);
  void Note(uint32_t segment, MissReason miss, uint64_t payload_bytes);
  void Finish();

  CallContext& context_;
  const std::vector<SegmentRef> segments_;
  const TimePoint deadline_;
  std::shared_ptr<const Cluster> cluster_;
  std::vector<uint32_t> open_;  // owners still to answer, per segment
  size_t undecided_;
  MatchResult result_;
  bool finished_ = false;
  io::SharedLoop::Call call_;
};

}  // namespace ember
