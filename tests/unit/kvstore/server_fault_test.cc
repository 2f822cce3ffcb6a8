// Writers that die, writers that meet, readers under load, and the node's own end.
#include "tests/unit/kvstore/server_fixture.h"

namespace ember::kv::testing {
namespace {

using ServerFaultTest = ServerTest;
EMBER_BOTH_BACK_ENDS(ServerFaultTest);

// C3: the writer dies at 10, 50 and 99 % of its puts. Nobody sees a part, the space is back, and
// another writer puts the same keys.
TEST_P(ServerFaultTest, AWriterThatDiesInTheMiddleLeavesNothing) {
  constexpr uint64_t kPuts = 100;
  constexpr size_t kSize = 60'000;
  const uint64_t used = OnEngine([&](ShardEngine&) { return arena_->used(); });
  for (int percent : {10, 50, 99}) {
    SCOPED_TRACE(percent);
    for (uint64_t i = 0; i < kPuts; ++i) {
      auto writer = Client();
      const TestSegment segment = MakeSegment(i, kSize);
      const wire::ReserveEntry entry = writer->ReserveOne(segment);
      ASSERT_EQ(entry.code, StatusCode::kOk) << i;
      const auto meta = Encode(wire::Write{entry.token, 0});
      const auto header = wire::EncodeFrameHeader(
          {wire::FrameType::kWrite, 1, static_cast<uint32_t>(meta.size()), kSize});
      writer->SendBytes(header);
      writer->SendBytes(meta);
      writer->SendBytes(ByteSpan(segment.payload).first(kSize * percent / 100));
      writer->CloseAbruptly();
    }
    ASSERT_TRUE(Eventually([&] { return OnEngine([](auto& e) { return e.attempts(); }) == 0; }));
    EXPECT_EQ(OnEngine([&](ShardEngine&) { return arena_->used(); }), used);
  }
  for (uint64_t i = 0; i < kPuts; ++i) {
    ASSERT_EQ(witness_->GetOne(i).reply.miss, MissReason::kNeverStored);
    ASSERT_EQ(witness_->Put(MakeSegment(i, kSize)), StatusCode::kOk);
  }
}

// C4: 16 clients put the same 1,000 keys together, each with bytes of its own. The first complete
// put of each key wins, whole.
TEST_P(ServerFaultTest, SixteenWritersOfTheSameKeys) {
  constexpr uint64_t kClients = 16;
  constexpr uint64_t kKeys = 1000;
  std::vector<std::thread> threads;
  std::atomic<int> failures{0};
  for (uint64_t c = 0; c < kClients; ++c) {
    threads.emplace_back([&, c] {
      auto client = Client();
      SeededRandom random(c);
      for (uint64_t k = 0; k < kKeys; ++k) {
        const StatusCode code = client->Put(MakeSegment((k + c) % kKeys, 2000, c % 2));
        if (code != StatusCode::kOk && code != StatusCode::kBusy) ++failures;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failures, 0);
  for (uint64_t k = 0; k < kKeys; ++k) {
    const RawClient::Got got = witness_->GetOne(k);
    ASSERT_EQ(got.reply.miss, MissReason::kNone) << k;
    ASSERT_TRUE(IsPayloadOf(k, got.payload, 2)) << k;
    // The header belongs to the bytes.
    ASSERT_EQ(DecodeSegmentHeader(got.reply.header)->checksum, Xxh3Of(got.payload)) << k;
  }
  const uint64_t stored_before = engine_metrics_.put_stored.value();
  for (uint64_t k = 0; k < kKeys; ++k) ASSERT_TRUE(witness_->ReserveOne(MakeSegment(k, 2000)).have);
  EXPECT_EQ(engine_metrics_.put_stored.value(), stored_before);
}

// C25 in kind: many clients, constant eviction; every byte that is read is right.
TEST_P(ServerFaultTest, ReadersUnderEvictionNeverSeeWrongBytes) {
  Start({.memory = 4 << 20});
  constexpr uint64_t kKeys = 200;
  constexpr int kRounds = 250;
  std::atomic<uint64_t> hits{0};
  std::atomic<uint64_t> wrong{0};
  std::vector<std::thread> threads;
  for (uint64_t c = 0; c < 8; ++c) {
    threads.emplace_back([&, c] {
      auto client = Client();
      SeededRandom random(c + 100);
      auto size_of = [](uint64_t number) { return 1 + number * 997 % 120'000; };
      for (int round = 0; round < kRounds; ++round) {
        const uint64_t number = random.Next() % kKeys;
        if (random.Next() % 3 == 0) {
          client->Put(MakeSegment(number, size_of(number)));
          continue;
        }
        if (random.Next() % 4 == 0) client->Match({number, number + 1}, 20);
        std::vector<wire::GetItem> items;
        for (uint64_t i = 0; i < 4; ++i) items.push_back({KeyOf((number + i) % kKeys), 0, 0});
        const std::vector<RawClient::Got> got = client->Get(items);
        for (uint64_t i = 0; i < 4; ++i) {
          if (got[i].reply.miss != MissReason::kNone) continue;
          ++hits;
          const uint64_t n = (number + i) % kKeys;
          if (got[i].payload.size() != size_of(n) || !IsPayloadOf(n, got[i].payload)) ++wrong;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0u);
  EXPECT_GT(hits, 100u);
  EXPECT_GT(engine_metrics_.evictions.value(), 100u);
  EXPECT_LE(OnEngine([&](ShardEngine&) { return arena_->used(); }), arena_->capacity());
}

TEST_P(ServerFaultTest, StopAnswersWhatHasArrivedAndClosesTheRest) {
  auto idle = Client();
  auto busy = Client();
  const TestSegment segment = MakeSegment(1, 2 << 20);
  const wire::ReserveEntry entry = busy->ReserveOne(segment);
  const auto meta = Encode(wire::Write{entry.token, 0});
  busy->SendBytes(wire::EncodeFrameHeader(
      {wire::FrameType::kWrite, 1, static_cast<uint32_t>(meta.size()), segment.payload.size()}));
  busy->SendBytes(meta);
  busy->SendBytes(ByteSpan(segment.payload).first(1 << 20));
  ASSERT_TRUE(Eventually([&] { return metrics_.bytes_in.value() >= segment.payload.size(); }));
  std::thread stop([&] { StopServer(seconds(60)); });
  EXPECT_TRUE(idle->WaitForClose());  // long before the grace ends
  // The rest of the payload, and the commit in the same breath, still count.
  Bytes rest(segment.payload.begin() + (1 << 20), segment.payload.end());
  const Bytes commit = Encode(wire::Commit{{entry.token}});
  const auto head = wire::EncodeFrameHeader(
      {wire::FrameType::kCommit, 2, static_cast<uint32_t>(commit.size()), 0});
  busy->SendBytes(rest);
  busy->SendBytes(head);
  busy->SendBytes(commit);
  (void)busy->ReadFrame();  // a verdict if the commit was there in time
  EXPECT_TRUE(busy->WaitForClose());
  stop.join();
}

TEST_P(ServerFaultTest, StopDoesNotWaitLongerThanItsGrace) {
  auto stuck = Client();
  stuck->SendBytes(ByteSpan(wire::EncodeFrameHeader({wire::FrameType::kPing, 1, 0, 0})).first(20));
  const TimePoint start = SteadyClock().Now();
  StopServer(milliseconds(100));
  EXPECT_LT(SteadyClock().Now() - start, seconds(10));
  EXPECT_TRUE(stuck->WaitForClose());
}

}  // namespace
}  // namespace ember::kv::testing
