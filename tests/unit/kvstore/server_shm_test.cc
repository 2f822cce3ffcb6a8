// Gets that are answered by a place in the shared memory: right bytes at the place, and pins for
// exactly as long as the lease.
#include "proto/wire/limits.h"
#include "tests/unit/kvstore/server_fixture.h"

namespace ember::kv::testing {
namespace {

constexpr uint32_t kLongLeaseMs = wire::kMaxLeaseMs;

class ServerShmTest : public ServerTest {
 protected:
  void SetUp() override {
    ServerTest::SetUp();
    if (thread_ != nullptr) Share({});
  }
  void Share(Settings settings) {
    settings.server.shm_path = "/offered";
    Start(std::move(settings));
  }
  static std::vector<wire::GetItem> Items(std::vector<uint64_t> numbers) {
    std::vector<wire::GetItem> items;
    for (uint64_t number : numbers) items.push_back({KeyOf(number), 0, 0});
    return items;
  }
  // As who mapped the memory sees it. ThreadSanitizer does not know that a reply which io_uring has
  // sent came after what the shard's thread wrote; asking the thread tells it.
  ByteSpan At(const wire::ArenaPlace& place) {
    (void)Pinned();
    return arena_->At({place.offset, place.length});
  }
  uint64_t Pinned() {
    return OnEngine([](ShardEngine& engine) { return engine.pinned(); });
  }
  // The last one that is held.
  void Release(RawClient& client, uint64_t lease) {
    client.Release(lease);
    EXPECT_TRUE(client.Ping());
    EXPECT_EQ(Pinned(), 0u);
  }
};
EMBER_BOTH_BACK_ENDS(ServerShmTest);

TEST_P(ServerShmTest, TheBytesAreWhereTheReplySaysAndPinnedUntilReleased) {
  auto client = Client();
  for (uint64_t number : {1, 2, 3}) {
    ASSERT_EQ(client->Put(MakeSegment(number, 100'000 + number)), StatusCode::kOk);
  }
  const auto got = client->Get(Items({1, 9, 2, 3}), kLongLeaseMs);
  const uint64_t lease = got[0].reply.lease_id;
  EXPECT_NE(lease, 0u);
  EXPECT_EQ(got[1].reply.miss, MissReason::kNeverStored);
  EXPECT_EQ(got[1].reply.lease_id, 0u);
  for (size_t i : {0, 2, 3}) {
    const uint64_t number = std::array{1, 9, 2, 3}[i];
    EXPECT_EQ(got[i].reply.lease_id, lease);
    EXPECT_TRUE(got[i].payload.empty());
    EXPECT_EQ(got[i].reply.place.length, 100'000 + number);
    EXPECT_TRUE(IsPayloadOf(number, At(got[i].reply.place)));
    EXPECT_EQ(DecodeSegmentHeader(got[i].reply.header)->key, KeyOf(number));
  }
  EXPECT_EQ(Pinned(), 3u);
  EXPECT_EQ(metrics_.shm_gets.value(), 3u);
  EXPECT_EQ(metrics_.shm_bytes.value(), 300'006u);
  EXPECT_EQ(metrics_.bytes_out.value(), 0u);
  Release(*client, lease);
}

TEST_P(ServerShmTest, ARangeHasThePlaceOfItsOwnBytes) {
  auto client = Client();
  const TestSegment segment = MakeSegment(1, 50'000);
  ASSERT_EQ(client->Put(segment), StatusCode::kOk);
  const auto got = client->Get(
      {{KeyOf(1), 4097, 100}, {KeyOf(1), 50'000, 0}, {KeyOf(1), 1, 50'000}}, kLongLeaseMs);
  EXPECT_EQ(got[0].reply.offset, 4097u);
  EXPECT_TRUE(
      std::ranges::equal(At(got[0].reply.place), ByteSpan(segment.payload).subspan(4097, 100)));
  EXPECT_EQ(got[1].reply.place.length, 0u);
  EXPECT_EQ(got[2].reply.miss, MissReason::kLayoutDiffers);
  Release(*client, got[0].reply.lease_id);
}

// C1: another call that times out on the same connection must not free what is being read.
TEST_P(ServerShmTest, PinsOutliveTheConnection) {
  auto client = Client(), other = Client();
  ASSERT_EQ(client->Put(MakeSegment(1, 1000)), StatusCode::kOk);
  const uint64_t lease = client->Get(Items({1}), kLongLeaseMs)[0].reply.lease_id;
  EXPECT_NE(lease, 0u);
  const auto connections = metrics_.connections.value();
  client->CloseAbruptly();
  ASSERT_TRUE(Eventually([&] { return metrics_.connections.value() < connections; }));
  EXPECT_EQ(Pinned(), 1u);
  Release(*other, lease);
}

TEST_P(ServerShmTest, PinsEndWithTheLeasesDeadline) {
  auto client = Client();
  ASSERT_EQ(client->Put(MakeSegment(1, 1000)), StatusCode::kOk);
  EXPECT_NE(client->Get(Items({1}), 1)[0].reply.lease_id, 0u);
  EXPECT_TRUE(Eventually([&] { return Pinned() == 0; }));
  EXPECT_TRUE(client->Ping());
}

// C1: while a lease holds, nothing else gets into its place, however much is written.
TEST_P(ServerShmTest, ALeasedPlaceIsNotReused) {
  Share({.memory = 2 << 20});
  auto client = Client();
  ASSERT_EQ(client->Put(MakeSegment(1, 300'000)), StatusCode::kOk);
  const wire::GetReply reply = client->Get(Items({1}), kLongLeaseMs)[0].reply;
  for (uint64_t number = 10; number < 60; ++number) {
    ASSERT_EQ(client->Put(MakeSegment(number, 300'000)), StatusCode::kOk);
    ASSERT_TRUE(IsPayloadOf(1, At(reply.place)));
  }
  Release(*client, reply.lease_id);
  for (uint64_t number = 60; number < 80; ++number) {
    ASSERT_EQ(client->Put(MakeSegment(number, 300'000)), StatusCode::kOk);
  }
  EXPECT_FALSE(IsPayloadOf(1, At(reply.place)));
}

TEST_P(ServerShmTest, WhatMayNotBePinnedIsSent) {
  Share({.memory = 2 << 20});  // half of it may be leased
  auto client = Client();
  for (uint64_t number : {1, 2, 3, 4, 5}) {
    ASSERT_EQ(client->Put(MakeSegment(number, 300'000)), StatusCode::kOk);
  }
  const auto got = client->Get(Items({1, 2, 3, 4, 5}), kLongLeaseMs);
  size_t in_place = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    const wire::GetReply& reply = got[i].reply;
    ASSERT_EQ(reply.miss, MissReason::kNone);
    if (reply.lease_id != 0) ++in_place;
    EXPECT_TRUE(IsPayloadOf(i + 1, reply.lease_id != 0 ? At(reply.place) : got[i].payload));
    EXPECT_EQ(got[i].payload.empty(), reply.lease_id != 0);
  }
  EXPECT_EQ(in_place, 3u);
  Release(*client, got[0].reply.lease_id);
}

TEST_P(ServerShmTest, ANodeThatOffersNoMemorySendsItAll) {
  Start({});
  auto client = Client();
  ASSERT_EQ(client->Put(MakeSegment(1, 1000)), StatusCode::kOk);
  const auto got = client->Get(Items({1}), kLongLeaseMs);
  EXPECT_EQ(got[0].reply.lease_id, 0u);
  EXPECT_TRUE(IsPayloadOf(1, got[0].payload));
  EXPECT_TRUE(Eventually([&] { return Pinned() == 0; }));  // when the kernel has taken the bytes
}

}  // namespace
}  // namespace ember::kv::testing
