// What peers send over gRPC, without a network: puts in pieces and questions against a real engine
// on the node's side, a node's feed and gets on the reader's. The input is a script: each step is
// an opcode, a key and a length, so that deep states are reached as well as broken messages. At the
// end nothing may be left open, and whatever is stored has the bytes its header promises.
#include "client/feed/feed_tracker.h"
#include "client/grpc_client/segment_pieces.h"
#include "kvstore/engine/lru_policy.h"
#include "kvstore/memory/arena.h"
#include "kvstore/server/data_message.h"
#include "kvstore/server/feed_message.h"
#include "kvstore/server/held_segment.h"
#include "kvstore/server/purger.h"
#include "kvstore/server/put_stream.h"

namespace ember::kv {
namespace {

// Time stands still; what is posted is done at once.
class FuzzLoop final : public io::Loop {
 public:
  void Run() override {}
  void Stop() override {}
  void Post(std::function<void()> fn) override { fn(); }
  Result<std::unique_ptr<io::Listener>> Listen(const io::Endpoint&) override {
    return UnavailableError("none");
  }
  io::Task<Result<std::unique_ptr<io::Stream>>> Connect(io::Endpoint, Duration) override {
    co_return UnavailableError("none");
  }
  io::FileSystem& files() override { std::abort(); }  // nothing here opens one
  Status RegisterMemory(MutableByteSpan) override { return OkStatus(); }
  std::unique_ptr<Timer> StartTimer(TimePoint, std::function<void()>) override { return nullptr; }
  io::Task<void> Sleep(Duration) override { co_return; }
  std::string_view backend() const override { return "fuzz"; }
  TimePoint Now() const override { return TimePoint(seconds(1)); }
};

class FuzzWallClock final : public WallClock {
 public:
  int64_t NowMs() const override { return 1'000'000; }
};

class Listener final : public FeedListener {
 public:
  void OnSnapshot(uint32_t shard, uint32_t shard_count) override {
    EMBER_CHECK(shard < shard_count, "a shard of the node");
  }
  void OnStored(uint32_t, const FeedItem&) override {}
  void OnRemoved(uint32_t, const FeedItem&, std::string_view) override {}
  void OnPurged(uint32_t, const PurgeScope&, uint64_t) override {}
  void OnCurrent(uint32_t) override {}
  void OnLost(const Status&) override {}
};

BlockKey Key(uint8_t number) {
  BlockKey key;
  key.hash.bytes[0] = std::byte{number};
  return key;
}

SegmentHeader HeaderOf(uint8_t number, size_t length) {
  SegmentHeader header;
  header.key = Key(number);
  header.payload_length = length;
  header.checksum = Xxh3Of(Bytes(length, std::byte{number}));
  return header;
}

class Script {
 public:
  explicit Script(std::span<const ShardDoor> doors)
      : doors_(doors), tracker_(listener_), receiver_(LayoutDigest{}) {
    Restart();
  }

  void Step(uint8_t op, uint8_t key, uint16_t length, std::string rest) {
    rest.resize(std::min<size_t>(rest.size(), length));
    switch (op % 12) {
      case 0:
        return Put(put_->Begin(std::string(AsString(Encode(HeaderOf(key, length))))));
      case 1:
        return Put(put_->Write(std::string(length, static_cast<char>(key))));
      case 2:
        return Put(put_->Begin(std::move(rest)));
      case 3:
        return Put(put_->Write(std::move(rest)));
      case 4:
        (void)put_->Finish(AckLevel::kMemory);
        return Restart();
      case 5: {
        rpc::PutPiece piece;
        if (!piece.ParseFromString(rest)) return;
        if (piece.has_header()) Put(put_->Begin(std::move(*piece.mutable_header())));
        if (piece.has_chunk()) Put(put_->Write(std::move(*piece.mutable_chunk())));
        return;
      }
      case 6:
        return Parsed<rpc::MatchSegmentsRequest>(rest, [&](const auto& m) { (void)FromProto(m); });
      case 7:
        return Parsed<rpc::GetSegmentsRequest>(rest, [&](const auto& m) { (void)Check(m); });
      case 8:
        return Parsed<rpc::FeedBatch>(rest, [&](const auto& m) {
          (void)tracker_.Take(m);
          (void)tracker_.Resume();
        });
      case 9:
        return Parsed<rpc::FeedRequest>(rest, [&](const auto& m) {
          const auto positions = FromProto(m);
          if (!positions.ok()) return;
          FeedCursor cursor(doors_, *positions);
          rpc::FeedBatch batch;
          const auto piece = cursor.Next();
          if (piece->has_value()) ToProto(**piece, 1, &batch);
        });
      case 10:
        return Parsed<rpc::PurgeRequest>(rest, [&](const auto& m) {
          const auto scope = FromProto(m);
          if (scope.ok()) (void)Purger({doors_.begin(), doors_.end()}).Purge(*scope, seconds(1));
        });
      case 11:
        return Parsed<rpc::GetPiece>(rest, [&](const auto& m) { Receive(key, m); });
    }
  }

 private:
  template <typename Message, typename Use>
  static void Parsed(const std::string& bytes, Use use) {
    Message message;
    if (message.ParseFromString(bytes)) use(message);
  }
  void Restart() {
    put_ = std::make_unique<PutStream>(doors_, ++owner_, doors_[0].loop, TimePoint(seconds(2)));
  }
  // As the service does: what breaks the rules ends the stream.
  void Put(const Status& status) {
    if (!status.ok()) Restart();
  }
  void Receive(uint8_t key, const rpc::GetPiece& piece) {
    Bytes buffer(key);
    GetRequest request;
    request.ref.key = Key(key);
    request.buffer = buffer;
    const Result<bool> last = receiver_.Take(piece, request);
    if (last.ok() && !*last) return;
    SegmentHeader header;
    const MissReason why = receiver_.Verify(request, &header);
    EMBER_CHECK(why != MissReason::kNone || Xxh3Of(buffer) == header.checksum, "verified bytes");
  }

  const std::span<const ShardDoor> doors_;
  OwnerId owner_ = 0;
  Listener listener_;
  FeedTracker tracker_;
  PieceReceiver receiver_;
  std::unique_ptr<PutStream> put_;
};

void Fuzz(ByteSpan input) {
  const std::unique_ptr<Arena> arena = Arena::Make(256 << 10, false).value();
  FuzzLoop loop;
  FuzzWallClock wall_clock;
  SeededRandom random(1);
  static MetricsRegistry registry;
  static EngineMetrics engine_metrics(&registry);
  FeedLog log(7, &registry.AddCounter("events", ""), 16);
  ShardEngine engine({.max_segment_bytes = 50'000, .forgotten_keys = 16}, arena.get(),
                     std::make_unique<LruPolicy>(), &loop, &wall_clock, &random, &engine_metrics);
  engine.SetObserver(&log);
  const ShardDoor door{.number = 0, .loop = &loop, .engine = &engine, .feed = &log};
  {
    Script script({&door, 1});
    for (int steps = 0; input.size() >= 4 && steps < 500; ++steps) {
      const auto at = [&](size_t i) { return static_cast<uint8_t>(input[i]); };
      const uint8_t op = at(0), key = at(1);
      const auto length = static_cast<uint16_t>(at(2) | at(3) << 8);
      input = input.subspan(4);
      script.Step(op, key, length, std::string(AsString(input)));
    }
  }
  EMBER_CHECK(engine.attempts() == 0 && engine.pinned() == 0, "nothing is left open");
  for (int key = 0; key < 256; ++key) {
    const auto held = HoldSegment(door, Key(static_cast<uint8_t>(key)), seconds(1));
    if (held->miss != MissReason::kNone) continue;
    EMBER_CHECK(DecodeSegmentHeader(held->header)->checksum == Xxh3Of(held->payload),
                "stored bytes are what their header promises");
  }
}

}  // namespace
}  // namespace ember::kv

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  ember::kv::Fuzz(std::as_bytes(std::span(data, size)));
  return 0;
}
