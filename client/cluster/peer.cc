#include "client/cluster/peer.h"

#include <algorithm>

namespace ember::cluster {
namespace {

// A node that has just greeted answers at its socket at once, or something is wrong with it.
constexpr Duration kMapTimeout = milliseconds(100);

}  // namespace

// An exchange that waits for a connection; lives in its coroutine's frame.
struct Peer::Waiter {
  Peer* peer;
  Lane lane;
  TimePoint deadline;
  std::coroutine_handle<> caller = nullptr;
  std::unique_ptr<io::Loop::Timer> timer = nullptr;
  std::optional<Result<Lent>> result = std::nullopt;

  std::deque<Waiter*>& queue() {
    return lane == Lane::kLoad ? peer->loads_waiting_ : peer->pushes_waiting_;
  }
  bool await_ready() const { return false; }
  void await_suspend(std::coroutine_handle<> handle) {
    caller = handle;
    queue().push_back(this);
    timer = peer->loop_.StartTimer(deadline, [this] {
      peer->Resolve(this, DeadlineError("node " + peer->node_id_ + ": no free connection in time"));
    });
    peer->OpenForWaiters();
  }
  Result<Lent> await_resume() { return *std::move(result); }
};

Peer::Peer(io::Loop& loop, io::Endpoint endpoint, std::string node_id, PeerOptions options,
           std::function<void(const wire::HelloReply&)> on_hello)
    : loop_(loop),
      endpoint_(std::move(endpoint)),
      node_id_(std::move(node_id)),
      options_(std::move(options)),
      on_hello_(std::move(on_hello)),
      limit_(options_.max_connections) {
  EMBER_CHECK(limit_ > 0 && options_.max_pushes > 0, "a peer needs connections");
}

io::Task<Status> Peer::Exchange(Lane lane, TimePoint deadline, ExchangeBody body) {
  for (bool may_repeat = true;; may_repeat = false) {
    Result<Lent> lent = co_await Acquire(lane, deadline);
    if (!lent.ok()) co_return lent.status();
    Connection& connection = **lent;
    const bool kept = connection.completed > 0;
    const TimePoint start = loop_.Now();
    connection.SetDeadline(deadline);
    const Status status = co_await body(connection);
    connection.ClearDeadline();
    const bool usable = connection.usable();
    if (usable) {
      ++connection.completed;
      failures_ = 0;
    }
    // A deadline well below a connect's says more about the caller than about the node.
    const bool hasty = status.code() == StatusCode::kDeadline &&
                       loop_.Now() - start < options_.connect_timeout / 2;
    const bool repeat = kept && may_repeat && status.code() == StatusCode::kUnavailable;
    if (!usable && !closed_ && !hasty) {
      idle_.clear();  // as old as the one that was lost
      if (!repeat) RecordFailure(status);
    }
    GiveBack(lane, *std::move(lent));
    if (usable || closed_ || !repeat) co_return status;
  }
}

io::Task<Result<Peer::Lent>> Peer::Acquire(Lane lane, TimePoint deadline) {
  if (closed_) co_return CancelledError("node " + node_id_ + ": the client is shut down");
  if (!worth_asking() || (down_ && opening_ > 0)) {
    co_return UnavailableError("node " + node_id_ + " is skipped after: " + last_error_.ToString());
  }
  if (loop_.Now() >= deadline) co_return DeadlineError("node " + node_id_ + ": asked too late");
  if (!idle_.empty() && MayLend(lane)) {
    Lent connection = std::move(idle_.back());
    idle_.pop_back();
    co_return Lend(lane, std::move(connection));
  }
  co_return co_await Waiter{this, lane, deadline};
}

bool Peer::MayLend(Lane lane) const {
  return lane == Lane::kLoad || pushes_lent_ < options_.max_pushes;
}

Peer::Lent Peer::Lend(Lane lane, Lent connection) {
  lent_.insert(connection.get());
  if (lane == Lane::kPush) ++pushes_lent_;
  return connection;
}

void Peer::GiveBack(Lane lane, Lent connection) {
  lent_.erase(connection.get());
  if (lane == Lane::kPush) --pushes_lent_;
  if (connection->usable() && !closed_) Offer(std::move(connection));
  OpenForWaiters();
}

void Peer::Offer(Lent connection) {
  for (auto* queue : {&loads_waiting_, &pushes_waiting_}) {
    if (queue->empty() || !MayLend(queue->front()->lane)) continue;
    Waiter* waiter = queue->front();
    return Resolve(waiter, Lend(waiter->lane, std::move(connection)));
  }
  idle_.push_back(std::move(connection));
}

void Peer::OpenForWaiters() {
  const size_t pushes = std::min(pushes_waiting_.size(),
                                 options_.max_pushes - std::min(options_.max_pushes, pushes_lent_));
  const size_t wanted = loads_waiting_.size() + pushes;
  while (!closed_ && opening_ < wanted && opening_ + lent_.size() + idle_.size() < limit_) {
    ++opening_;
    gate_.Spawn(Open());
    if (down_) break;  // one try
  }
}

io::Task<void> Peer::Open() {
  // The dial belongs to the peer and not to one caller, whose deadline may be too short for it.
  Result<Lent> dialed = co_await Connection::Dial(
      loop_, {endpoint_, options_.client_name, node_id_, options_.shard, options_.connect_timeout});
  if (dialed.ok() && !closed_) {
    OnHello((*dialed)->hello());
    // Before the connection is used: who wants to read in place would else have to ask again.
    co_await MapMemory((*dialed)->hello());
  }
  --opening_;
  if (closed_) co_return;  // perhaps the hello brought a view without this peer
  if (dialed.ok()) {
    Offer(*std::move(dialed));
  } else {
    OnDialFailed(dialed.status());
  }
}

io::Task<void> Peer::MapMemory(const wire::HelloReply& hello) {
  if (closed_ || !options_.map_memory || hello.shm_path.empty() || ArenaOf(hello) != nullptr)
    co_return;
  // The mappings of a life before stay with those who still read in them.
  std::erase_if(arenas_,
                [&](const auto& arena) { return arena->incarnation() != hello.incarnation; });
  Result<std::shared_ptr<const MappedArena>> arena =
      co_await MappedArena::Map(loop_, hello, std::min(options_.connect_timeout, kMapTimeout));
  map_error_ = arena.status();
  if (arena.ok() && ArenaOf(hello) == nullptr) arenas_.push_back(*std::move(arena));
}

std::shared_ptr<const MappedArena> Peer::ArenaOf(const wire::HelloReply& hello) const {
  for (const auto& arena : arenas_) {
    if (arena->IsOf(hello)) return arena;
  }
  return nullptr;
}

void Peer::OnDialFailed(const Status& status) {
  if (status.code() == StatusCode::kBusy && !lent_.empty()) {
    limit_ = lent_.size() + idle_.size();  // the node takes no more from us; share what we have
    return;
  }
  RecordFailure(status);
}

void Peer::OnHello(const wire::HelloReply& hello) {
  down_ = false;
  if (incarnation_ != 0 && incarnation_ != hello.incarnation) {
    restarted_at_ = loop_.Now();
    idle_.clear();
  }
  incarnation_ = hello.incarnation;
  if (on_hello_) on_hello_(hello);
}

void Peer::RecordFailure(const Status& status) {
  constexpr uint32_t kMaxDoublings = 16;
  down_ = true;
  last_error_ = status;
  const Duration back_off = options_.back_off_min * (1u << std::min(failures_++, kMaxDoublings));
  retry_at_ = loop_.Now() + std::min(back_off, options_.back_off_max);
  limit_ = options_.max_connections;
  idle_.clear();
  FailWaiters(status);
}

void Peer::Resolve(Waiter* waiter, Result<Lent> result) {
  std::erase(waiter->queue(), waiter);
  waiter->timer.reset();
  waiter->result = std::move(result);
  // Not from here: a chain of waiters would otherwise run on one growing stack.
  loop_.Post([caller = waiter->caller] { caller.resume(); });
}

void Peer::FailWaiters(const Status& status) {
  while (!loads_waiting_.empty()) Resolve(loads_waiting_.front(), status);
  while (!pushes_waiting_.empty()) Resolve(pushes_waiting_.front(), status);
}

io::Task<void> Peer::Close() {
  closed_ = true;
  idle_.clear();
  for (Connection* connection : lent_) connection->Close();
  FailWaiters(CancelledError("node " + node_id_ + ": the client is shut down"));
  co_await gate_.Close();
}

bool Peer::RestartedWithin(Duration window) const {
  return restarted_at_ && loop_.Now() - *restarted_at_ < window;
}

}  // namespace ember::cluster
