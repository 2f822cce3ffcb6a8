// The feed without its network: the ring, and a reader's way through it.
#include <gtest/gtest.h>

#include <map>
#include <thread>

#include "client/io/sync.h"
#include "kvstore/engine/lru_policy.h"
#include "kvstore/memory/arena.h"
#include "kvstore/server/feed_cursor.h"
#include "kvstore/server/feed_readers.h"
#include "tests/unit/kvstore/test_segments.h"

namespace ember::kv::testing {
namespace {

GenerationId GenerationOf(uint64_t number) { return {number * 3, ~number}; }

class FeedLogTest : public ::testing::Test {
 protected:
  MetricsRegistry registry_;
  Counter& events_ = registry_.AddCounter("events", "");
};

TEST_F(FeedLogTest, EventsComeBackNumberedAsTheyWere) {
  FeedLog log(7, &events_, 8);
  std::vector<FeedEvent> events;
  EXPECT_TRUE(log.Read(0, 10, &events));
  EXPECT_TRUE(events.empty());
  log.Stored(KeyOf(1), Tier::kDisk, GenerationOf(1));
  log.Removed(KeyOf(1), Tier::kMemory, GenerationOf(1), MissReason::kEvicted);
  log.Purged(PurgeScope::OfTenant("acme"), 9);
  log.Purged(PurgeScope::OfNamespace(KeyOf(2).ns), 10);
  ASSERT_TRUE(log.Read(0, 10, &events));
  ASSERT_EQ(events.size(), 4u);
  EXPECT_EQ(log.newest(), 4u);
  EXPECT_EQ(events[0].kind, FeedEvent::Kind::kStored);
  EXPECT_EQ(events[0].tier, Tier::kDisk);
  EXPECT_EQ(events[0].key, KeyOf(1));
  EXPECT_EQ(events[0].generation, GenerationOf(1));
  EXPECT_EQ(events[1].kind, FeedEvent::Kind::kRemoved);
  EXPECT_EQ(events[1].tier, Tier::kMemory);
  EXPECT_EQ(events[1].reason, MissReason::kEvicted);
  EXPECT_EQ(events[2].scope, PurgeScope::OfTenant("acme"));
  EXPECT_EQ(events[2].epoch, 9u);
  EXPECT_EQ(events[3].scope, PurgeScope::OfNamespace(KeyOf(2).ns));
  std::vector<FeedEvent> some;
  ASSERT_TRUE(log.Read(1, 2, &some));
  EXPECT_EQ(some, std::vector(events.begin() + 1, events.begin() + 3));
}

TEST_F(FeedLogTest, AReaderThatIsOvertakenIsTold) {
  FeedLog log(7, &events_, 8);
  for (uint64_t i = 1; i <= 12; ++i) log.Stored(KeyOf(i), Tier::kMemory, GenerationOf(i));
  std::vector<FeedEvent> events;
  EXPECT_FALSE(log.Read(3, 10, &events));  // event 4 made room for event 12
  EXPECT_TRUE(events.empty());
  ASSERT_TRUE(log.Read(4, 10, &events));
  EXPECT_EQ(events.size(), 8u);
  EXPECT_FALSE(log.Read(13, 10, &events)) << "a number that was never given";
}

// The writer's path has nothing to wait for: a million events pass a reader that took one and
// froze, in the memory of the ring.
TEST_F(FeedLogTest, AFrozenReaderCostsTheWriterNothing) {
  FeedLog log(7, &events_, 1024);
  log.Stored(KeyOf(1), Tier::kMemory, GenerationOf(1));
  std::vector<FeedEvent> taken;
  ASSERT_TRUE(log.Read(0, 1, &taken));
  for (uint64_t i = 0; i < 1'000'000; ++i) log.Stored(KeyOf(2), Tier::kMemory, GenerationOf(i));
  EXPECT_EQ(log.newest(), 1'000'001u);
  EXPECT_EQ(events_.value(), 1'000'001u);
  EXPECT_FALSE(log.Read(1, 1, &taken));
}

// Every event is a function of its number; whatever a racing reader gets must be whole.
TEST_F(FeedLogTest, RacingReadersSeeWholeEventsInOrder) {
  constexpr uint64_t kEvents = 300'000;
  FeedLog log(7, &events_, 4096);
  std::atomic<bool> done = false;
  std::atomic<uint64_t> read = 0;
  std::vector<std::thread> readers;
  for (int r = 0; r < 2; ++r) {
    readers.emplace_back([&] {
      uint64_t at = 0;
      std::vector<FeedEvent> events;
      while (!done || at < log.newest()) {
        events.clear();
        if (!log.Read(at, 64, &events)) {
          at = log.newest();
          continue;
        }
        for (const FeedEvent& event : events) {
          ++at;
          ASSERT_EQ(event.generation, GenerationOf(at));
          ASSERT_EQ(event.key.hash.bytes[0], std::byte(at & 0xff));
          ASSERT_EQ(event.reason, static_cast<MissReason>(at % 7));
        }
        read += events.size();
      }
    });
  }
  for (uint64_t i = 1; i <= kEvents || (read < 1000 && i <= 100 * kEvents); ++i) {
    if (i % 512 == 0) std::this_thread::yield();
    BlockKey key;
    key.hash.bytes.fill(std::byte(i & 0xff));
    log.Removed(key, Tier::kMemory, GenerationOf(i), static_cast<MissReason>(i % 7));
  }
  done = true;
  for (std::thread& reader : readers) reader.join();
  EXPECT_GT(read, 0u);
}

// An engine on its loop, with a ring of few events, and a consumer as the README tells it to be.
class FeedCursorTest : public ::testing::Test {
 protected:
  static constexpr size_t kRing = 256;

  void SetUp() override {
    arena_ = *Arena::Make(8 << 20, false);
    thread_ = *io::LoopThread::Make(io::Backend::kAuto);
    engine_ =
        std::make_unique<ShardEngine>(EngineOptions{}, arena_.get(), std::make_unique<LruPolicy>(),
                                      &thread_->loop(), &wall_clock_, &random_, &metrics_);
    engine_->SetObserver(&log_);
  }
  void TearDown() override {
    thread_.reset();
    engine_.reset();
  }

  ShardDoor Door() {
    return {.number = 0, .loop = &thread_->loop(), .engine = engine_.get(), .feed = &log_};
  }
  template <typename Work>
  void OnShard(Work work) {
    ASSERT_TRUE(AskShard<int>(Door(), seconds(20), [&](ShardEngine& engine) {
                  work(engine);
                  return Result<int>(0);
                }).ok());
  }
  static void PutOn(ShardEngine& engine, uint64_t number, size_t bytes = 1000) {
    const TestSegment segment = MakeSegment(number, bytes);
    const auto r = engine.Reserve(1, segment.encoded_header);
    if (r.code != StatusCode::kOk || r.have) return;
    {
      Result<WriteGrant> grant = engine.BeginWrite(1, r.token, 0, bytes);
      std::ranges::copy(segment.payload, grant->remaining().begin());
      grant->Advance(bytes);
    }
    EMBER_CHECK(engine.Commit(1, r.token) == StatusCode::kOk, "put");
  }
  std::map<BlockKey, GenerationId> Truth() {
    std::map<BlockKey, GenerationId> truth;
    OnShard([&](ShardEngine& engine) {
      uint64_t cursor = 0;
      do {
        cursor = engine.VisitStored(
            cursor, 100, [&](const BlockKey& key, const GenerationId& g) { truth[key] = g; });
      } while (cursor != 0);
    });
    return truth;
  }

  // What the listener of a feed does.
  void Apply(const FeedPiece& piece) {
    if (piece.begins) picture_.clear();
    for (const FeedEntry& entry : piece.entries) picture_[entry.key] = entry.generation;
    if (!piece.snapshot) {
      EXPECT_EQ(piece.sequence, position_.sequence + 1) << "a gap";
    }
    for (const FeedEvent& event : piece.events) {
      if (event.kind == FeedEvent::Kind::kStored) picture_[event.key] = event.generation;
      if (event.kind == FeedEvent::Kind::kRemoved) picture_.erase(event.key);
    }
    complete_ = !piece.snapshot || piece.ends;
    position_ = {
        .shard = 0,
        .log = piece.log,
        .sequence = piece.snapshot ? piece.sequence : piece.sequence + piece.events.size() - 1};
  }
  // Until there is no news.
  void CatchUp(FeedCursor* cursor) {
    for (;;) {
      auto piece = cursor->Next();
      ASSERT_TRUE(piece.ok()) << piece.status().ToString();
      if (!piece->has_value()) break;
      Apply(**piece);
    }
    EXPECT_TRUE(complete_);
  }

  MetricsRegistry registry_;
  EngineMetrics metrics_{&registry_};
  SystemRandom random_;
  SystemWallClock wall_clock_;
  FeedLog log_{77, &registry_.AddCounter("events", ""), kRing};
  std::unique_ptr<Arena> arena_;
  std::unique_ptr<ShardEngine> engine_;
  std::unique_ptr<io::LoopThread> thread_;
  std::map<BlockKey, GenerationId> picture_;
  FeedPosition position_;
  bool complete_ = false;
};

TEST_F(FeedCursorTest, ASnapshotThenChanges) {
  OnShard([](ShardEngine& engine) {
    for (uint64_t i = 0; i < 1500; ++i) PutOn(engine, i);
  });
  FeedCursor cursor(std::vector{Door()}, {});
  CatchUp(&cursor);
  EXPECT_EQ(picture_.size(), 1500u);
  EXPECT_EQ(picture_, Truth());
  OnShard([](ShardEngine& engine) {
    for (uint64_t i = 1500; i < 1600; ++i) PutOn(engine, i);
    engine.Purge(PurgeScope::Everything(), 1);
    PutOn(engine, 1);
  });
  CatchUp(&cursor);  // 1600 removals: more than the ring holds
  EXPECT_EQ(picture_, Truth());
  EXPECT_EQ(picture_.size(), 1u);
  EXPECT_EQ(cursor.snapshots(), 2u);
  EXPECT_EQ(cursor.overtaken(), 1u);
}

// Puts, evictions and purges between any two parts of a snapshot.
TEST_F(FeedCursorTest, ChangesDuringASnapshotEndUpRight) {
  SeededRandom dice(5);
  OnShard([](ShardEngine& engine) {
    for (uint64_t i = 0; i < 3000; ++i) PutOn(engine, i);
  });
  uint64_t next = 3000, epoch = 0;
  for (int round = 0; round < 20; ++round) {
    FeedCursor cursor(std::vector{Door()}, {});
    complete_ = false;
    do {
      auto piece = cursor.Next();
      ASSERT_TRUE(piece.ok());
      ASSERT_TRUE(piece->has_value());
      Apply(**piece);
      OnShard([&](ShardEngine& engine) {
        for (int i = 0; i < 8; ++i) {
          PutOn(engine, dice.Next() % 2 == 0 ? next++ : dice.Next() % next,
                500 + dice.Next() % 4000);
        }
        if (dice.Next() % 200 == 0) {
          engine.Purge(PurgeScope::OfNamespace(KeyOf(0).ns), ++epoch);
        }
      });
    } while (!complete_);
    CatchUp(&cursor);
    ASSERT_EQ(picture_, Truth()) << "round " << round;
  }
}

TEST_F(FeedCursorTest, ResumesWhereTheRingStillHasIt) {
  OnShard([](ShardEngine& engine) {
    for (uint64_t i = 0; i < 100; ++i) PutOn(engine, i);
  });
  {
    FeedCursor cursor(std::vector{Door()}, {});
    CatchUp(&cursor);
  }
  OnShard([](ShardEngine& engine) {
    for (uint64_t i = 100; i < 200; ++i) PutOn(engine, i);
  });
  FeedCursor again(std::vector{Door()}, std::vector{position_});
  CatchUp(&again);
  EXPECT_EQ(again.snapshots(), 0u);
  EXPECT_EQ(picture_, Truth());
  OnShard([](ShardEngine& engine) {
    for (uint64_t i = 200; i < 200 + 2 * kRing; ++i) PutOn(engine, i);
  });
  FeedCursor late(std::vector{Door()}, std::vector{position_});
  CatchUp(&late);
  EXPECT_EQ(late.snapshots(), 1u);
  EXPECT_EQ(picture_, Truth());
  // Another run of the node, or a position it never reached.
  for (const FeedPosition& wrong : {FeedPosition{0, position_.log + 1, position_.sequence},
                                    FeedPosition{0, position_.log, position_.sequence + 1},
                                    FeedPosition{1, position_.log, position_.sequence}}) {
    FeedCursor cursor(std::vector{Door()}, std::vector{wrong});
    CatchUp(&cursor);
    EXPECT_EQ(cursor.snapshots(), 1u);
    EXPECT_EQ(picture_, Truth());
  }
}

TEST(FeedReaders, ANewcomerTakesThePlaceOfOneThatIsStuck) {
  class FakeClock final : public Clock {
   public:
    TimePoint Now() const override { return now; }
    TimePoint now{seconds(100)};
  } clock;
  MetricsRegistry registry;
  ControlMetrics metrics(&registry);
  FeedReaders readers(&clock, &metrics);
  std::vector<std::unique_ptr<FeedReaders::Place>> places;
  std::vector<size_t> cut_off;
  for (size_t i = 0; i < FeedReaders::kMaxReaders; ++i) {
    places.push_back(*readers.Enter([&cut_off, i] { cut_off.push_back(i); }));
  }
  const auto enter = [&] { return readers.Enter([] {}); };
  EXPECT_EQ(enter().status().code(), StatusCode::kBusy);
  places[5]->BeginWrite();
  clock.now += seconds(1);
  places[3]->BeginWrite();
  clock.now += FeedReaders::kStuckAfter - seconds(2);
  EXPECT_EQ(enter().status().code(), StatusCode::kBusy) << "not stuck for long enough";
  clock.now += seconds(1);
  auto newcomer = enter();
  ASSERT_TRUE(newcomer.ok());
  EXPECT_EQ(cut_off, std::vector<size_t>{5});
  EXPECT_TRUE(places[5]->was_cut_off());
  places[3]->EndWrite();
  EXPECT_EQ(enter().status().code(), StatusCode::kBusy);
  places[5].reset();
  EXPECT_EQ(readers.size(), FeedReaders::kMaxReaders);
  places.clear();
  EXPECT_EQ(readers.size(), 1u);
}

}  // namespace
}  // namespace ember::kv::testing
