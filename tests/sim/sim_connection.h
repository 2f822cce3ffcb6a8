// SimConnection: one simulated TCP connection, and SimStream, its two ends.
//
// Each direction has a bounded buffer: bytes in flight and bytes not yet read. A writer waits when
// it is full. Close is seen by the other end as the end of the stream, in order after what was
// written; bytes that come to a closed end, or that were never read there, reset the connection.
#pragma once

#include <array>
#include <deque>

#include "tests/sim/sim_loop.h"
#include "tests/sim/sim_network.h"

namespace ember::sim {

class SimConnection : public std::enable_shared_from_this<SimConnection> {
 public:
  struct End {
    std::string host;
    std::string name;  // host:port, as the other end sees it
  };
  SimConnection(SimNetwork* network, std::shared_ptr<Simulation> simulation, End dialer,
                End listener);

  // `side`: 0 dialled, 1 accepted.
  io::Task<Result<size_t>> Read(int side, SimLoop* loop, MutableByteSpan buffer);
  io::Task<Status> Write(int side, SimLoop* loop, std::span<const ByteSpan> parts);
  void Close(int side);
  const End& end(int side) const { return sides_[side].end; }
  // Both ends find it broken, this one at once.
  void Reset(int side);
  // Nothing arrives any more, and nobody is told.
  void GoSilent() { silent_ = true; }
  // This end's host is gone: its own operations fail, the other end hears nothing.
  void LosePower(const std::string& host);

 private:
  struct Side {
    End end;
    size_t capacity = 0;        // of what this side writes
    size_t unread = 0;          // by the other side, in flight or there
    std::deque<Bytes> arrived;  // for this side
    size_t front_read = 0;      // of arrived.front()
    TimePoint last_arrival{};   // at the other side
    bool closed = false;        // by its owner
    bool reset = false;
    bool peer_ended = false;
    ParkingSpot read;
    ParkingSpot write;
  };

  size_t Take(Side& side, MutableByteSpan buffer);
  void Send(int side, Bytes bytes);
  void Arrive(int side, Bytes bytes);
  // Runs `fn` at the other side, after what was sent before.
  void Later(int from, Duration extra, std::function<void()> fn);
  void MarkReset(Side& side);

  SimNetwork* const network_;
  const std::shared_ptr<Simulation> simulation_;
  std::array<Side, 2> sides_;
  bool silent_ = false;
};

class SimStream final : public io::Stream {
 public:
  SimStream(std::shared_ptr<SimConnection> connection, int side, SimLoop* loop)
      : connection_(std::move(connection)), side_(side), loop_(loop) {}
  ~SimStream() override { Close(); }

  io::Task<Result<size_t>> ReadSome(MutableByteSpan buffer) override {
    return connection_->Read(side_, loop_, buffer);
  }
  io::Task<Status> WriteAll(std::span<const ByteSpan> parts) override {
    return connection_->Write(side_, loop_, parts);
  }
  void Close() override { connection_->Close(side_); }
  const std::string& peer_name() const override { return connection_->end(1 - side_).name; }

 private:
  const std::shared_ptr<SimConnection> connection_;
  const int side_;
  SimLoop* const loop_;
};

// A Listener of one loop.
class SimListener final : public io::Listener {
 public:
  SimListener(SimNetwork* network, std::shared_ptr<Simulation> simulation, SimLoop* loop,
              uint16_t port)
      : network_(network), simulation_(std::move(simulation)), loop_(loop), port_(port) {}
  ~SimListener() override { Close(); }

  io::Task<Result<std::unique_ptr<io::Stream>>> Accept() override;
  void Close() override;
  uint16_t port() const override { return port_; }
  SimLoop* loop() const { return loop_; }

  // False when too many wait already.
  bool Offer(std::shared_ptr<SimConnection> connection);

 private:
  static constexpr size_t kBacklog = 128;

  SimNetwork* const network_;
  const std::shared_ptr<Simulation> simulation_;
  SimLoop* const loop_;
  const uint16_t port_;
  std::deque<std::shared_ptr<SimConnection>> waiting_;
  ParkingSpot accept_;
  bool closed_ = false;
};

}  // namespace ember::sim
