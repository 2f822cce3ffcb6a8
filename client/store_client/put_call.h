// PutCall: one Put. It lives on the caller's stack; nothing of it is left when Run returns.
//
// Operation: every owner is sent its segments in parallel, in windows of some MiB: reserve, write
// what it lacks, commit. No window waits for another's answer: the next ones are hashed and
// reserved while the kernel still drains the last. All owners get the same header and generation,
// so that copies are bit-equal. While others wait for the loop, the caller's own thread makes all
// checksums first, so that hashing holds up nobody else.
#pragma once

#include <deque>

#include "client/store_client/call_context.h"
#include "proto/base/random.h"

namespace ember {

class PutCall {
 public:
  PutCall(CallContext& context, std::span<const PutRequest> requests, const LayoutDigest& layout,
          TimePoint deadline, const PutOptions& options);
  // Blocks. Not on the loop's thread.
  std::vector<PutOutcome> Run();

 private:
  using Items = std::vector<uint32_t>;
  // What one owner is asked to reserve at once.
  struct Window {
    Items items;
    uint64_t bytes = 0;                            // of their payloads
    bool settled = false;                          // every outcome is known
    std::vector<wire::ReserveEntry> reservations;  // empty until answered
    Items to_send;                                 // of items
    std::vector<wire::AttemptToken> tokens;        // of to_send
  };
  // Windows in flight on one connection; answers come in the order of the questions.
  struct Flight {
    struct Question {
      uint64_t request_id = 0;
      size_t window = 0;
      bool commit = false;  // else reserve
    };
    std::deque<Question> open;
    size_t reserved = 0;  // windows before are asked for
    size_t written = 0;   // windows before are written
  };

  const Bytes& HeaderOf(uint32_t item);

  // On the loop.
  io::Task<Status> PushAll();
  io::Task<void> Push(std::shared_ptr<cluster::NodePeers> node, Items items);
  io::Task<void> PushTo(ShardShare share);
  std::vector<Window> Cut(const Items& items) const;
  io::Task<Status> PushOn(cluster::Connection& connection, std::vector<Window>* windows);
  io::Task<Result<bool>> Step(cluster::Connection& connection, std::vector<Window>* windows,
                              Flight* flight);
  io::Task<Status> Reserve(cluster::Connection& connection, const Window& window,
                           uint64_t request_id);
  io::Task<Status> Write(cluster::Connection& connection, const Window& window, uint64_t commit_id);
  io::Task<Status> ReadAnswer(cluster::Connection& connection, const Flight::Question& question,
                              Window* window);
  Status OnReserved(cluster::Connection& connection, const wire::ReserveReply& reply,
                    Window* window);
  Status OnCommitted(cluster::Connection& connection, const wire::CommitReply& reply,
                     Window* window);

  void Settle(const cluster::Connection& connection, Window* window);
  void Refuse(uint32_t item, const Status& status);

  CallContext& context_;
  const std::span<const PutRequest> requests_;
  const LayoutDigest& layout_;
  const TimePoint deadline_;
  const PutOptions options_;
  SystemRandom random_;
  std::shared_ptr<const Cluster> cluster_;
  std::vector<Bytes> headers_;  // encoded; empty until made
  std::vector<bool> refused_;   // here
  std::vector<uint32_t> had_;   // owners that had it already
  std::vector<uint32_t> owners_;
  std::vector<PutOutcome> outcomes_;
};

}  // namespace ember
