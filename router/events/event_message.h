// EventMessage: the frames of one ZeroMQ message of an event stream or of a replay, read.
#pragma once

#include <optional>
#include <span>

#include "proto/base/bytes.h"

namespace ember::router {

struct EventMessage {
  static constexpr uint64_t kEndOfReplay = ~uint64_t{0};  // -1

  uint64_t sequence = 0;
  ByteSpan payload;

  // Live messages are [topic, sequence, payload]; replies to a replay are [empty, sequence,
  // payload] or [empty, topic, sequence, payload], by the engine's version, and may lack the empty
  // frame. So the last two frames decide; the sequence is 8 bytes, big-endian. Nothing: no such
  // message.
  static std::optional<EventMessage> Read(std::span<const ByteSpan> frames);
};

}  // namespace ember::router
