// LeaseReturns: leases that are done with, of matches and of reads in place, on their way back.
//
// Operation: a message of its own for each release would cost more than the read itself. So a
// release waits for the next get of the same shard and goes before it in the same write; when none
// comes within a few milliseconds, a thread of its own has it sent. The thread starts with the
// first release.
// Concurrency: any thread. Life: shared by the client and the leases that its callers hold; after
// Close what is Pending may still be sent, and nothing is added.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "proto/base/bytes.h"
#include "proto/base/time.h"

namespace ember {

namespace cluster {
class Peer;
}

class LeaseReturns {
 public:
  using PeerPtr = std::shared_ptr<cluster::Peer>;

  // `flush` is called on the thread; it arranges that what is Pending is taken and sent soon.
  explicit LeaseReturns(std::function<void()> flush) : flush_(std::move(flush)) {}
  LeaseReturns(const LeaseReturns&) = delete;
  LeaseReturns& operator=(const LeaseReturns&) = delete;
  ~LeaseReturns() { Close(); }

  void Add(const PeerPtr& peer, uint64_t lease_id);
  // The release frames for this shard, to be sent on any of its connections; empty when there are
  // none. They are gone from here. One for a life of the node that is over means nothing to it.
  Bytes TakeFrames(const cluster::Peer* peer);
  // The shards that something is to be sent to.
  std::vector<PeerPtr> Pending();
  // Idempotent; waits for a running `flush`.
  void Close();

 private:
  struct Return {
    PeerPtr peer;
    uint64_t lease_id;
  };

  void Run();

  const std::function<void()> flush_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<Return> returns_;
  TimePoint oldest_;   // of returns_
  bool idle_ = false;  // the thread waits for a first one
  bool closed_ = false;
  std::thread thread_;
};

}  // namespace ember
