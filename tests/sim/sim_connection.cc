#include "tests/sim/sim_connection.h"

#include <algorithm>

#include "client/io/gather_cursor.h"

namespace ember::sim {

SimConnection::SimConnection(SimNetwork* network, std::shared_ptr<Simulation> simulation,
                             End dialer, End listener)
    : network_(network), simulation_(std::move(simulation)) {
  sides_[0].end = std::move(dialer);
  sides_[1].end = std::move(listener);
  const NetworkFaults& faults = network_->faults;
  for (Side& side : sides_) {
    side.capacity = simulation_->dice().Between(faults.buffer_min, faults.buffer_max);
  }
}

size_t SimConnection::Take(Side& side, MutableByteSpan buffer) {
  size_t available = 0;
  for (const Bytes& piece : side.arrived) available += piece.size();
  size_t want = std::min(buffer.size(), available - side.front_read);
  Dice& dice = simulation_->dice();
  if (want > 1 && dice.Chance(network_->faults.short_read)) want = dice.Between(1, want);
  for (size_t done = 0; done < want;) {
    const ByteSpan front = ByteSpan(side.arrived.front()).subspan(side.front_read);
    const size_t n = std::min(front.size(), want - done);
    std::memcpy(buffer.data() + done, front.data(), n);
    done += n;
    side.front_read += n;
    if (n == front.size()) {
      side.arrived.pop_front();
      side.front_read = 0;
    }
  }
  return want;
}

io::Task<Result<size_t>> SimConnection::Read(int side, SimLoop* loop, MutableByteSpan buffer) {
  EMBER_CHECK(!buffer.empty(), "nothing can be read into an empty buffer");
  Side& self = sides_[side];
  Side& peer = sides_[1 - side];
  const std::string what = "read " + peer.end.name;
  for (;;) {
    if (!self.closed && !loop->TakeTurn()) co_await loop->Yield();
    if (self.closed || loop->draining()) co_return CancelledError(what + ": closed");
    if (self.reset) co_return UnavailableError(what + ": Connection reset by peer");
    if (!self.arrived.empty()) {
      const size_t n = Take(self, buffer);
      peer.unread -= n;
      peer.write.Wake();
      simulation_->Note(n);
      co_return n;
    }
    if (self.peer_ended) co_return size_t{0};
    co_await self.read.Wait(loop);
  }
}

io::Task<Status> SimConnection::Write(int side, SimLoop* loop, std::span<const ByteSpan> parts) {
  Side& self = sides_[side];
  const std::string what = "write " + sides_[1 - side].end.name;
  io::GatherCursor cursor(parts);
  while (!cursor.done()) {
    if (!self.closed && !loop->TakeTurn()) co_await loop->Yield();
    if (self.closed || loop->draining()) co_return CancelledError(what + ": closed");
    if (self.reset) co_return UnavailableError(what + ": Broken pipe");
    if (self.unread >= self.capacity) {
      co_await self.write.Wait(loop);
      continue;
    }
    size_t room = self.capacity - self.unread;
    room = std::min(room, simulation_->dice().Between(1, network_->faults.piece_max));
    Bytes piece;
    const msghdr* message = cursor.Message();
    for (size_t i = 0; i < message->msg_iovlen && piece.size() < room; ++i) {
      const iovec& part = message->msg_iov[i];
      const auto* data = static_cast<const std::byte*>(part.iov_base);
      piece.insert(piece.end(), data, data + std::min(part.iov_len, room - piece.size()));
    }
    cursor.Advance(piece.size());
    Send(side, std::move(piece));
  }
  co_return OkStatus();
}

void SimConnection::Send(int side, Bytes bytes) {
  const NetworkFaults& faults = network_->faults;
  Dice& dice = simulation_->dice();
  if (network_->Throw(faults.reset, NetworkFault::kReset)) return Reset(side);
  if (network_->Throw(faults.half_open, NetworkFault::kHalfOpen)) GoSilent();
  Duration extra{0};
  if (network_->Throw(faults.stall, NetworkFault::kStall)) {
    extra = dice.Between(Duration(0), faults.stall_max);
  }
  sides_[side].unread += bytes.size();
  simulation_->Note(bytes.size());
  Later(side, extra,
        [this, side, bytes = std::move(bytes)]() mutable { Arrive(1 - side, std::move(bytes)); });
}

void SimConnection::Later(int from, Duration extra, std::function<void()> fn) {
  Side& side = sides_[from];
  const TimePoint when =
      std::max(side.last_arrival, simulation_->Now() + network_->Delay() + extra);
  side.last_arrival = when;
  // When both ends are gone, nobody is there to see it.
  network_->Deliver(side.end.host, sides_[1 - from].end.host, when,
                    [weak = weak_from_this(), fn = std::move(fn)] {
                      const auto self = weak.lock();
                      if (self != nullptr && !self->silent_) fn();
                    });
}

void SimConnection::Arrive(int side, Bytes bytes) {
  Side& self = sides_[side];
  // Nobody knows of this connection here (any more).
  if (self.closed || self.reset) {
    Later(side, Duration(0), [this, side] { MarkReset(sides_[1 - side]); });
    return;
  }
  self.arrived.push_back(std::move(bytes));
  self.read.Wake();
}

void SimConnection::MarkReset(Side& side) {
  side.reset = true;
  side.read.Wake();
  side.write.Wake();
}

void SimConnection::Reset(int side) {
  MarkReset(sides_[side]);
  Later(side, Duration(0), [this, side] { MarkReset(sides_[1 - side]); });
}

void SimConnection::Close(int side) {
  Side& self = sides_[side];
  if (std::exchange(self.closed, true)) return;
  self.read.Wake();
  self.write.Wake();
  const bool unread = !self.arrived.empty();
  Later(side, Duration(0), [this, side, unread] {
    Side& peer = sides_[1 - side];
    if (unread) return MarkReset(peer);
    peer.peer_ended = true;
    peer.read.Wake();
  });
}

void SimConnection::LosePower(const std::string& host) {
  for (Side& side : sides_) {
    if (side.end.host == host) MarkReset(side);
  }
  // What is left of it can only be answered by a host that knows nothing of it.
  for (int i : {0, 1}) {
    if (sides_[i].end.host == host) sides_[i].closed = true;
  }
}

// ---- listener

io::Task<Result<std::unique_ptr<io::Stream>>> SimListener::Accept() {
  for (;;) {
    if (!closed_ && !loop_->TakeTurn()) co_await loop_->Yield();
    if (closed_ || loop_->draining()) co_return CancelledError("accept: closed");
    if (!waiting_.empty()) {
      if (network_->Throw(network_->faults.busy_accept, NetworkFault::kBusyAccept)) {
        co_return BusyError("accept: Too many open files");
      }
      auto connection = std::move(waiting_.front());
      waiting_.pop_front();
      co_return std::make_unique<SimStream>(std::move(connection), 1, loop_);
    }
    co_await accept_.Wait(loop_);
  }
}

void SimListener::Close() {
  if (std::exchange(closed_, true)) return;
  network_->Unbind(this);
  accept_.Wake();
  for (const auto& connection : waiting_) connection->Reset(1);
  waiting_.clear();
}

bool SimListener::Offer(std::shared_ptr<SimConnection> connection) {
  if (waiting_.size() >= kBacklog) return false;
  waiting_.push_back(std::move(connection));
  accept_.Wake();
  return true;
}

}  // namespace ember::sim
