// A whole data connection: what a peer sends, in pieces of the fuzzer's choice, against a real
// engine. The input is a script: each step is an opcode, a key, and a length; so that deep states
// (reserved, half written, committed, leased) are reached as well as broken frames. At the end
// nothing may be left open, and whatever is stored has the bytes its header promises.
#include <cstdlib>
#include <deque>

#include "kvstore/engine/lru_policy.h"
#include "kvstore/memory/arena.h"
#include "kvstore/server/data_connection.h"

namespace ember::kv {
namespace {

// Time stands still; nothing waits.
class FuzzLoop final : public io::Loop {
 public:
  void Run() override {}
  void Stop() override {}
  void Post(std::function<void()>) override {}
  Result<std::unique_ptr<io::Listener>> Listen(const io::Endpoint&) override {
    return UnavailableError("none");
  }
  io::Task<Result<std::unique_ptr<io::Stream>>> Connect(io::Endpoint, Duration) override {
    co_return UnavailableError("none");
  }
  io::FileSystem& files() override { std::abort(); }  // nothing here has a disk
  Status RegisterMemory(MutableByteSpan) override { return OkStatus(); }
  std::unique_ptr<Timer> StartTimer(TimePoint, std::function<void()>) override { return nullptr; }
  io::Task<void> Sleep(Duration) override { co_return; }
  std::string_view backend() const override { return "fuzz"; }
  TimePoint Now() const override { return TimePoint(seconds(1)); }
};

class FuzzStream final : public io::Stream {
 public:
  FuzzStream(Bytes input, size_t piece) : input_(std::move(input)), piece_(piece) {}
  io::Task<Result<size_t>> ReadSome(MutableByteSpan buffer) override {
    const size_t n = std::min({buffer.size(), piece_, input_.size() - at_});
    std::memcpy(buffer.data(), input_.data() + at_, n);
    at_ += n;
    co_return n;
  }
  io::Task<Status> WriteAll(std::span<const ByteSpan> parts) override {
    for (ByteSpan part : parts) sum_ ^= Xxh3Of64(part);  // reads every byte that would be sent
    co_return OkStatus();
  }
  void Close() override {}
  const std::string& peer_name() const override { return name_; }

 private:
  const Bytes input_;
  const size_t piece_;
  size_t at_ = 0;
  uint64_t sum_ = 0;
  const std::string name_ = "fuzz";
};

// 1, 2, 3 ...: tokens the script can name.
class CountingRandom final : public RandomSource {
 public:
  uint64_t Next() override { return ++last_; }

 private:
  uint64_t last_ = 0;
};

BlockKey Key(uint8_t number) {
  BlockKey key;
  key.hash.bytes[0] = std::byte{number};
  return key;
}

Bytes Payload(uint8_t number, size_t length) { return Bytes(length, std::byte{number}); }

Bytes HeaderOf(uint8_t number, size_t length) {
  SegmentHeader header;
  header.key = Key(number);
  header.payload_length = length;
  header.checksum = Xxh3Of(Payload(number, length));
  return Encode(header);
}

void Append(Bytes* out, wire::FrameType type, ByteSpan meta, ByteSpan payload, uint64_t declared) {
  const auto header =
      wire::EncodeFrameHeader({type, 1, static_cast<uint32_t>(meta.size()), declared});
  out->insert(out->end(), header.begin(), header.end());
  out->insert(out->end(), meta.begin(), meta.end());
  out->insert(out->end(), payload.begin(), payload.end());
}

// One step of the script as the bytes a client would send.
void AppendStep(uint8_t op, uint8_t key, uint16_t length, ByteSpan rest, Bytes* out) {
  using wire::FrameType;
  const wire::AttemptToken token{uint64_t{2} * key + 1, uint64_t{2} * key + 2};
  const ByteSpan some = rest.first(std::min<size_t>(rest.size(), length));
  auto append = [&](FrameType type, const Bytes& meta) { Append(out, type, meta, {}, 0); };
  switch (op % 12) {
    case 0:
      return append(FrameType::kReserve, Encode(wire::Reserve{{HeaderOf(key, length)}}));
    case 1: {
      const Bytes payload = Payload(static_cast<uint8_t>(length >> 8), length);
      return Append(out, FrameType::kWrite, Encode(wire::Write{token, 0}), payload, payload.size());
    }
    case 2:
      return append(FrameType::kCommit, Encode(wire::Commit{{token}}));
    case 3:
      return append(FrameType::kAbort, Encode(wire::Abort{{token}}));
    case 4:
      return append(FrameType::kGet, Encode(wire::Get{{{Key(key), length, 0}, {Key(key), 0, 0}}}));
    case 5:
      return append(FrameType::kMatch, Encode(wire::Match{{Key(key), Key(key)}, length}));
    case 6:
      return append(FrameType::kRelease, Encode(wire::Release{length}));
    case 7:
      return append(FrameType::kReportCorrupt, Encode(wire::ReportCorrupt{Key(key), {}}));
    case 8:
      return append(FrameType::kPing, {});
    // A valid header with whatever follows as message, and a length that may lie.
    case 9:
      return Append(out, static_cast<FrameType>(key), some, {}, 0);
    case 10:
      return Append(out, FrameType::kWrite, Encode(wire::Write{token, key}), some, length);
    case 11:
      out->insert(out->end(), some.begin(), some.end());
  }
}

Bytes Sentence(ByteSpan script) {
  Bytes out;
  Append(&out, wire::FrameType::kHello, Encode(wire::Hello{}), {}, 0);
  // Deep enough, and quick even under sanitizers.
  constexpr size_t kMaxSentence = 512 << 10;
  while (script.size() >= 4 && out.size() < kMaxSentence) {
    const auto at = [&](size_t i) { return static_cast<uint8_t>(script[i]); };
    const auto length = static_cast<uint16_t>(at(2) | at(3) << 8);
    const uint8_t op = at(0), key = at(1);
    script = script.subspan(4);
    AppendStep(op, key, length, script, &out);
  }
  return out;
}

io::internal::Detached Start(io::Task<Status> task, bool* ended) {
  (void)co_await std::move(task);
  *ended = true;
}

void Fuzz(ByteSpan input) {
  const std::unique_ptr<Arena> arena = Arena::Make(256 << 10, false).value();
  FuzzLoop loop;
  CountingRandom random;
  SystemWallClock wall_clock;
  static MetricsRegistry registry;
  static EngineMetrics engine_metrics(&registry);
  static ServerMetrics metrics(&registry);
  const size_t piece = 1 + static_cast<uint8_t>(input[0]) * 37;
  {
    ShardEngine engine({.max_segment_bytes = 50'000, .forgotten_keys = 16}, arena.get(),
                       std::make_unique<LruPolicy>(), &loop, &wall_clock, &random, &engine_metrics);
    ServerContext context{&loop, &engine, &metrics, {}};
    bool ended = false;
    {
      DataConnection connection(&context, 1,
                                std::make_unique<FuzzStream>(Sentence(input.subspan(1)), piece));
      Start(connection.Run(), &ended);
      EMBER_CHECK(ended, "nothing to wait for");
    }
    EMBER_CHECK(engine.attempts() == 0 && engine.leases() == 0 && engine.pinned() == 0,
                "a connection leaves nothing open");
    for (int key = 0; key < 256; ++key) {
      auto found = engine.Get(Key(static_cast<uint8_t>(key)));
      if (!found.pin.held()) continue;
      EMBER_CHECK(DecodeSegmentHeader(found.pin.header())->checksum == Xxh3Of(found.pin.payload()),
                  "stored bytes are what their header promises");
    }
    EMBER_CHECK(context.large_message_bytes == 0, "the budget is given back");
  }
}

}  // namespace
}  // namespace ember::kv

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 0) ember::kv::Fuzz(std::as_bytes(std::span(data, size)));
  return 0;
}
