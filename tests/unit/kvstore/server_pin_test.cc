// Pins of readers who never come back: none may outlive its deadline or its connection.
#include "tests/unit/kvstore/server_fixture.h"

namespace ember::kv::testing {
namespace {

class ServerPinTest : public ServerTest {};
EMBER_BOTH_BACK_ENDS(ServerPinTest);

// C29: a million lookups with leases whose get never comes, from clients that die at random.
TEST_P(ServerPinTest, C29_LookupsWhoseGetNeverComesPinNothingForLong) {
  constexpr uint64_t kSegments = 1000, kKeys = 500, kCalls = 1'000'000 / kKeys;
  constexpr size_t kBytes = 4000, kClients = 16;
  constexpr uint32_t kLeaseMs = 20;
  Start({.memory = 16 << 20});
  for (uint64_t n = 0; n < kSegments; ++n) {
    ASSERT_EQ(witness_->Put(MakeSegment(n, kBytes)), StatusCode::kOk);
  }
  SeededRandom random(29);
  std::vector<std::unique_ptr<RawClient>> clients(kClients);
  std::vector<uint64_t> numbers(kKeys);
  uint64_t most_leases = 0, leases = 0;
  for (uint64_t call = 0; call < kCalls; ++call) {
    std::unique_ptr<RawClient>& client = clients[random.Next() % kClients];
    if (client == nullptr) client = Client();
    const uint64_t first = random.Next() % kSegments;
    for (uint64_t i = 0; i < kKeys; ++i) numbers[i] = (first + i) % kSegments;
    leases += client->Match(numbers, kLeaseMs).lease_id != 0;
    if (call % 16 == 0) {
      most_leases = std::max(most_leases, OnEngine([](ShardEngine& e) { return e.leases(); }));
    }
    if (random.Next() % 32 == 0) {
      client->CloseAbruptly();
      client.reset();
    }
  }
  EXPECT_GT(leases, kCalls / 2);  // the others met a bound
  EXPECT_GT(most_leases, 1u);     // else nothing was pinned
  // The clients that live on do not help: they are idle.
  EXPECT_TRUE(Eventually(
      [&] { return OnEngine([](ShardEngine& e) { return e.leases() + e.pinned(); }) == 0; }));
  // Everything can be evicted again: other segments take the whole memory.
  for (uint64_t n = 0; n < 6 * kSegments; ++n) {
    ASSERT_EQ(witness_->Put(MakeSegment(10'000 + n, kBytes)), StatusCode::kOk) << n;
  }
  EXPECT_EQ(witness_->Match({0, 1, 2, 500, 999}).entries[4].miss, MissReason::kEvicted);
}

}  // namespace
}  // namespace ember::kv::testing
