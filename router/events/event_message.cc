#include "router/events/event_message.h"

namespace ember::router {

std::optional<EventMessage> EventMessage::Read(std::span<const ByteSpan> frames) {
  if (frames.size() < 2 || frames.size() > 4) return std::nullopt;
  const ByteSpan number = frames[frames.size() - 2];
  if (number.size() != sizeof(uint64_t)) return std::nullopt;
  EventMessage message{.payload = frames.back()};
  for (const std::byte b : number) {
    message.sequence = message.sequence << 8 | static_cast<uint8_t>(b);
  }
  return message;
}

}  // namespace ember::router
