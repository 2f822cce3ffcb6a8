// Peer: one shard of a node as a client sees it: its few long-lived connections, and whether it is
// worth asking.
//
// Operation: connections are opened when needed, up to a limit, and lent to one exchange at a time;
// further exchanges wait, loads before pushes. After a failure the peer is skipped until its
// back-off ends; then one exchange tries it again while the others are still refused.
// Concurrency: the loop's thread only. Life: Close() it, and let every Exchange end, before it
// dies.
#pragma once

#include <deque>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "client/cluster/connection.h"
#include "client/cluster/mapped_arena.h"
#include "client/io/gate.h"

namespace ember::cluster {

// Pushes may hold only some of the connections, so that they never delay a load.
enum class Lane { kLoad, kPush };

struct PeerOptions {
  std::string client_name;
  Duration connect_timeout = milliseconds(500);
  Duration back_off_min = milliseconds(100);
  Duration back_off_max = seconds(2);
  size_t max_connections = 4;
  size_t max_pushes = 2;
  bool map_memory = false;        // of a node on this host that offers it
  std::optional<uint32_t> shard;  // that must answer; nullopt: any of the node's
};

class Peer {
 public:
  using ExchangeBody = std::function<io::Task<Status>(Connection&)>;

  // `node_id` is what the node must call itself. `on_hello` hears each new connection's hello.
  Peer(io::Loop& loop, io::Endpoint endpoint, std::string node_id, PeerOptions options,
       std::function<void(const wire::HelloReply&)> on_hello);
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  // Runs `body` on a connection, all within `deadline`. kUnavailable at once during a back-off.
  // When a kept connection turns out to be lost, `body` is run once more on another: it must carry
  // on from what it has already got.
  io::Task<Status> Exchange(Lane lane, TimePoint deadline, ExchangeBody body);

  // Ends running exchanges with kCancelled and takes no more. Awaited once.
  io::Task<void> Close();

  // False during a back-off.
  bool worth_asking() const { return !down_ || loop_.Now() >= retry_at_; }
  // It failed lately, and has not answered since.
  bool down() const { return down_; }
  // It came back with empty memory within the last `window`.
  bool RestartedWithin(Duration window) const;
  // It answered lately, and nothing has failed since.
  bool connected() const { return !down_ && incarnation_ != 0; }
  const Status& last_error() const { return last_error_; }
  // The memory behind a connection with this hello; null when it is not mapped.
  std::shared_ptr<const MappedArena> ArenaOf(const wire::HelloReply& hello) const;
  // Why it is not mapped.
  const Status& map_error() const { return map_error_; }
  const std::string& node_id() const { return node_id_; }
  const io::Endpoint& endpoint() const { return endpoint_; }

 private:
  using Lent = std::unique_ptr<Connection>;
  struct Waiter;

  io::Task<Result<Lent>> Acquire(Lane lane, TimePoint deadline);
  bool MayLend(Lane lane) const;
  Lent Lend(Lane lane, Lent connection);
  void GiveBack(Lane lane, Lent connection);
  void Offer(Lent connection);
  void OpenForWaiters();
  io::Task<void> Open();
  io::Task<void> MapMemory(const wire::HelloReply& hello);
  void OnDialFailed(const Status& status);
  void OnHello(const wire::HelloReply& hello);
  void RecordFailure(const Status& status);
  void Resolve(Waiter* waiter, Result<Lent> result);
  void FailWaiters(const Status& status);

  io::Loop& loop_;
  const io::Endpoint endpoint_;
  const std::string node_id_;
  const PeerOptions options_;
  const std::function<void(const wire::HelloReply&)> on_hello_;
  io::Gate gate_;
  bool closed_ = false;

  // Connections.
  std::vector<Lent> idle_;
  std::set<Connection*> lent_;
  size_t pushes_lent_ = 0;
  size_t opening_ = 0;
  size_t limit_;
  std::deque<Waiter*> loads_waiting_;
  std::deque<Waiter*> pushes_waiting_;

  // Shared memory.
  std::vector<std::shared_ptr<const MappedArena>> arenas_;  // of the node's life now, by shard
  Status map_error_ = UnavailableError("the node does not offer its memory");

  // Health.
  bool down_ = false;
  uint32_t failures_ = 0;  // since an exchange last went well
  TimePoint retry_at_{};
  Status last_error_;
  uint64_t incarnation_ = 0;
  std::optional<TimePoint> restarted_at_;
};

}  // namespace ember::cluster
