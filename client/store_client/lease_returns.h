// LeaseReturns: leases on segments in a node's shared memory that are done with, on their way back.
//
// Operation: a message of its own for each release would cost more than the read itself. So a
// release waits for the next request to the same shard and goes before it in the same write; when
// none comes within a few milliseconds, a thread of its own has it sent. The thread starts with the
// first lease.
// Concurrency: any thread. Life: shared by the client and the leases that its callers hold; after
// Close nothing is sent, for the leases have ended with the client's connections.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "client/cluster/mapped_arena.h"
#include "proto/base/time.h"

namespace ember {

class LeaseReturns {
 public:
  using Arena = std::shared_ptr<const cluster::MappedArena>;

  // `flush` is called on the thread; it arranges that what is Pending is taken and sent soon.
  explicit LeaseReturns(std::function<void()> flush) : flush_(std::move(flush)) {}
  LeaseReturns(const LeaseReturns&) = delete;
  LeaseReturns& operator=(const LeaseReturns&) = delete;
  ~LeaseReturns() { Close(); }

  void Add(const Arena& arena, uint64_t lease_id);
  // The release frames for this shard, to be sent on any of its connections; empty when there are
  // none. They are gone from here.
  Bytes TakeFrames(const cluster::MappedArena* arena);
  // The shards that something is to be sent to.
  std::vector<Arena> Pending();
  // Idempotent; waits for a running `flush`.
  void Close();

 private:
  struct Return {
    Arena arena;
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
