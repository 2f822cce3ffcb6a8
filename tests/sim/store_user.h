// StoreUser: a client of a simulated store that does whatever a client may do, in random order,
// over the connections that production uses: puts whole, damaged, slow, aborted or left half done;
// matches with and without leases; whole and ranged gets; false reports; sudden ends.
//
// Every answer is checked against the model as it arrives. Concurrency: the simulation's thread.
// Life: outlives its Run.
#pragma once

#include <memory>
#include <vector>

#include "client/cluster/connection.h"
#include "tests/sim/sim_loop.h"
#include "tests/sim/store_model.h"

namespace ember::sim {

struct StoreUserOptions {
  std::vector<io::Endpoint> shards;  // a number belongs to shard number % shards
  int operations = 60;
  Duration patience = seconds(5);  // for one exchange
  AckLevel ack = AckLevel::kMemory;
};

class StoreUser {
 public:
  StoreUser(SimLoop* loop, StoreModel* model, StoreUserOptions options);

  // Until its operations are done, or `*stop`.
  io::Task<void> Run(const bool* stop);

 private:
  using Connection = cluster::Connection;
  // What was promised with a lease.
  struct Leased {
    uint64_t number;
    GenerationId generation;
  };

  io::Task<Status> Operate(Connection& connection, size_t shard);
  io::Task<Status> Put(Connection& connection, size_t shard);
  io::Task<Status> SendPayload(Connection& connection, const wire::AttemptToken& token,
                               ByteSpan payload);
  io::Task<Status> Match(Connection& connection, size_t shard);
  io::Task<Status> Get(Connection& connection, std::vector<uint64_t> numbers,
                       std::vector<Leased> leased, TimePoint lease_end);
  io::Task<Status> ReportFalsely(Connection& connection, size_t shard);
  uint64_t Number(size_t shard);
  std::vector<uint64_t> Numbers(size_t shard, size_t most);

  SimLoop* const loop_;
  StoreModel* const model_;
  const StoreUserOptions options_;
  Dice& dice_;
  std::vector<std::unique_ptr<Connection>> connections_;  // by shard
};

}  // namespace ember::sim
