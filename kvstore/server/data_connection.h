// DataConnection: one client on the data plane: hello, then requests handled in order, one at a
// time. It is the owner of the puts and leases that it opens in the engine; they end with it.
//
// Whatever breaks the protocol is answered by an error frame with request id 0 that says what was
// wrong, then the connection closes; nobody else notices.
// Concurrency: the loop's thread only. Life: Run once; it may be destroyed when Run has ended.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "client/io/stream.h"
#include "kvstore/server/frame_reader.h"
#include "kvstore/server/reply_queue.h"
#include "kvstore/server/server_context.h"
#include "kvstore/server/watch.h"

namespace ember::kv {

class DataConnection {
 public:
  DataConnection(ServerContext* context, OwnerId id, std::unique_ptr<io::Stream> stream);

  // Until the peer leaves, breaks the protocol, or the server stops. Returns why.
  io::Task<Status> Run();
  // Ends once the requests that have arrived are answered; at once when there is none.
  void Finish();
  void Close() { stream_->Close(); }
  // Closes when the peer was too slow.
  void Sweep(TimePoint now);

  // Peer's address and name, for logs.
  const std::string& peer() const { return peer_; }

 private:
  using Frame = FrameReader::Frame;
  // Keys that must be on disk before a reply, and their places in it.
  struct PersistList {
    std::vector<BlockKey> keys;
    std::vector<size_t> places;
    void Add(const BlockKey& key, size_t place) {
      keys.push_back(key);
      places.push_back(place);
    }
  };

  io::Task<Status> Serve();
  io::Task<Status> Handshake();
  io::Task<Status> Handle(const Frame& frame);
  io::Task<Status> HandleWrite(const Frame& frame);
  io::Task<Status> HandleGet(const Frame& frame);
  io::Task<Status> HandleReserve(const Frame& frame);
  io::Task<Status> HandleCommit(const Frame& frame);
  Status HandleMatch(const Frame& frame);
  Status HandleAbort(const Frame& frame);
  Status HandleRelease(const Frame& frame);
  Status HandleReportCorrupt(const Frame& frame);
  io::Task<Status> Persist(PersistList list, const std::function<void(size_t)>& durable);
  void PrefetchFrom(std::span<const wire::GetItem> items);
  // The lease that the items of one Get share which are read in place.
  struct InPlace {
    Duration duration;
    uint64_t lease_id = 0;
  };
  // `in_place`: null when payloads are to be sent.
  void AddGetReply(uint64_t request_id, uint32_t index, const wire::GetItem& item,
                   ShardEngine::Found found, InPlace* in_place);
  io::Task<Status> ReceiveInto(WriteGrant* grant);
  io::Task<void> SayFarewell(const Status& why);

  ServerContext* const context_;
  const OwnerId id_;
  const std::unique_ptr<io::Stream> stream_;
  Watch watch_;
  FrameReader reader_;
  ReplyQueue replies_;
  std::string peer_;
  bool finishing_ = false;
  bool timed_out_ = false;
  TimePoint reserved_at_;  // of the newest batch
};

}  // namespace ember::kv
