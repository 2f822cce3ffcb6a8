// PutCall: one Put. It lives on the caller's stack; nothing of it is left when Run returns.
//
// Operation: the caller's thread makes headers and checksums; then, on the loop, every owner is
// sent its segments in parallel, in batches: reserve, write what it lacks, commit. All owners get
// the same generation, so that copies are bit-equal.
#pragma once

#include "client/store_client/call_context.h"
#include "proto/base/random.h"

namespace ember {

class PutCall {
 public:
  PutCall(CallContext& context, std::span<const PutRequest> requests, const LayoutDigest& layout,
          TimePoint deadline);
  // Blocks. Not on the loop's thread.
  std::vector<PutOutcome> Run();

 private:
  using Items = std::vector<uint32_t>;

  Status MakeHeader(uint32_t item, const LayoutDigest& layout, RandomSource& random);

  // On the loop.
  io::Task<Status> PushAll();
  io::Task<void> Push(size_t member, Items items);
  Items NextBatch(const Items& items, size_t* next) const;
  io::Task<Status> PushOn(cluster::Connection& connection, const Items& batch);
  io::Task<Status> Write(cluster::Connection& connection, const Items& items,
                         const std::vector<wire::AttemptToken>& tokens);
  io::Task<Status> Commit(cluster::Connection& connection, const Items& items,
                          const std::vector<wire::AttemptToken>& tokens);

  void Refuse(uint32_t item, const Status& status);

  CallContext& context_;
  const std::span<const PutRequest> requests_;
  const TimePoint deadline_;
  std::shared_ptr<const Cluster> cluster_;
  std::vector<Bytes> headers_;  // encoded; empty where refused
  std::vector<uint32_t> had_;   // owners that had it already
  std::vector<uint32_t> owners_;
  std::vector<PutOutcome> outcomes_;
};

}  // namespace ember
