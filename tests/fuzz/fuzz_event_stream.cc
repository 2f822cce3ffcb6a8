// An event stream under any order of messages, replays, losses of connections and time: what it
// tells is in order and without a gap since the last loss, and nothing is waited for without end.
// The input is a script: a byte for what happens, a byte for its number, frames of any bytes.
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>

#include "router/events/event_message.h"
#include "router/events/event_stream.h"

namespace ember::router {
namespace {

// [number, []]: the timestamp says which batch it is, `publisher` whose.
std::string BatchOf(uint64_t number, uint8_t publisher) {
  std::string payload{"\x93\xcb", 2};
  const auto bits = std::bit_cast<uint64_t>(static_cast<double>(number));
  for (int shift = 56; shift >= 0; shift -= 8) payload.push_back(static_cast<char>(bits >> shift));
  payload += '\x90';
  payload += static_cast<char>(publisher & 0x7f);  // its rank
  return payload;
}

class OrderCheck final : public EventStream::Sink {
 public:
  void OnBatch(KvEventBatch batch, bool) override {
    if (!checked) return;
    if (last) EMBER_CHECK(batch.timestamp == *last + 1, "batches are told in order, each once");
    if (last) EMBER_CHECK(batch.rank == publisher, "two publishers are not mixed");
    last = batch.timestamp;
    publisher = batch.rank;
  }
  void OnLost(const Status&) override { last.reset(); }
  void OnTrusted() override {}

  bool checked = true;
  std::optional<double> last;
  std::optional<uint32_t> publisher;
};

void Fuzz(ByteSpan in) {
  const auto byte = [&]() -> uint8_t {
    if (in.empty()) return 0;
    const auto value = static_cast<uint8_t>(in[0]);
    in = in.subspan(1);
    return value;
  };
  static MetricsRegistry registry;
  static EventMetrics metrics(registry);
  OrderCheck sink;
  const EventStreamOptions options{.has_replay = (byte() & 1) != 0, .max_held_bytes = 256};
  EventStream stream(options, sink, metrics);
  TimePoint now{};
  uint8_t publisher = 0;
  while (!in.empty()) {
    const uint8_t what = byte();
    const uint64_t number = byte() & 0x1f;
    const std::string batch = BatchOf(number, publisher);
    switch (what % 10) {
      case 0:
        stream.OnConnected(now);
        break;
      case 1:  // another process takes its place, as one can see by the connection only
        publisher = byte();
        stream.OnConnected(now);
        break;
      case 2:
      case 3:
        stream.OnLive(number, AsBytes(batch), now);
        break;
      case 4:
      case 5:
        stream.OnReplayed(number, AsBytes(batch), now);
        break;
      case 6:
        stream.OnReplayEnd(now);
        break;
      case 7:
        stream.OnReplayBroken(UnavailableError("cut"), now);
        break;
      case 8:
        now += milliseconds(100) * static_cast<int64_t>(number * number);
        stream.Tick(now);
        break;
      case 9: {
        // Frames of any bytes; whatever they say is not in order.
        std::array<ByteSpan, 5> frames;
        const size_t count = number % (frames.size() + 1);
        for (size_t i = 0; i < count; ++i) {
          frames[i] = in.first(std::min<size_t>(byte() % 16, in.size()));
          in = in.subspan(frames[i].size());
        }
        const auto message = EventMessage::Read(std::span(frames).first(count));
        if (!message) break;
        sink.checked = false;
        stream.OnLive(message->sequence, message->payload, now);
        break;
      }
    }
    if (!options.has_replay) EMBER_CHECK(!stream.replay(), "there is nobody to ask");
    if (stream.replay()) EMBER_CHECK(stream.deadline().has_value(), "a replay is not for ever");
  }
  // Time alone ends every replay.
  for (int i = 0; i < 100 && (stream.replay() || i == 0); ++i) {
    now = std::max(now, stream.deadline().value_or(now));
    stream.Tick(now);
  }
}

}  // namespace
}  // namespace ember::router

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  ember::router::Fuzz({reinterpret_cast<const std::byte*>(data), size});
  return 0;
}
