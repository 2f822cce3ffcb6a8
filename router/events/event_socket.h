// EventSocket: one ZeroMQ connection out to an engine's event port, and what becomes of it. The
// only place that sees ZeroMQ.
//
// Everything is bounded: what a peer may send in one frame, what waits to be read, how often it is
// connected to. Nothing is ever bound. One thread.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "proto/base/bytes.h"
#include "proto/base/status.h"
#include "proto/base/time.h"

namespace ember::router {

// ZeroMQ's threads and all its sockets. Must outlive every EventSocket.
class EventSocketContext {
 public:
  EventSocketContext();
  ~EventSocketContext();
  EventSocketContext(const EventSocketContext&) = delete;
  EventSocketContext& operator=(const EventSocketContext&) = delete;

 private:
  friend class EventSocket;
  void* context_;
  uint64_t monitors_ = 0;  // each needs a name of its own
};

class EventSocket {
 public:
  // A frame that is announced to be longer ends the connection. An engine step's batch is below 1
  // MiB: 5 bytes a token, 35 a block.
  static constexpr int64_t kMaxFrameBytes = 4 << 20;
  // Messages that wait unread; beyond that a publisher drops what it would send us.
  static constexpr int kMaxWaiting = 1000;

  // Follows all topics of a publisher.
  static Result<EventSocket> Subscribe(EventSocketContext& context, const std::string& endpoint);
  // Asks a publisher to repeat its batches from `sequence` on, as vLLM wants to be asked.
  static Result<EventSocket> AskReplay(EventSocketContext& context, const std::string& endpoint,
                                       uint64_t sequence);
  ~EventSocket();
  EventSocket(EventSocket&&) noexcept;
  EventSocket& operator=(EventSocket&&) noexcept;

  // The frames of the next message, if one waits: good until the next call. More than 8 frames are
  // cut off.
  std::optional<std::vector<ByteSpan>> Receive();
  // What happened to the connection, oldest first. Whoever received a message hears of the
  // connection that it came on before asking for the next.
  enum class Change : uint8_t {
    kNone,
    kConnected,
    kRefused,  // it will be tried again
    kLost,     // after a peer that broke the protocol nobody tries again: the socket is of no use
  };
  Change NextChange();

  // Waits until one of the sockets has something to say, or `wake_fd` can be read, or the time is
  // over.
  static void Wait(std::span<const EventSocket* const> sockets, int wake_fd, Duration timeout);

 private:
  struct Impl;
  explicit EventSocket(std::unique_ptr<Impl> impl);
  static Result<EventSocket> Open(EventSocketContext& context, int type,
                                  const std::string& endpoint);
  std::unique_ptr<Impl> impl_;
};

}  // namespace ember::router
