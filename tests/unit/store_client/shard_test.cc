// The store client against a real node of several shards; ranges and leases, too.
#include <gtest/gtest.h>

#include "kvstore/node.h"
#include "tests/unit/store_client/client_fixture.h"
#include "tests/unit/support/loopback.h"

namespace ember::testing {
namespace {

constexpr uint16_t kPort = 7101;

class ShardTest : public ::testing::TestWithParam<io::Backend> {
 protected:
  void SetUp() override {
    if (!ClientFixture::Available(GetParam())) GTEST_SKIP() << "the system has no such back end";
    config_.node_id = "s1";
    config_.listen = {OwnLoopbackAddress(), kPort};
    config_.grpc.reset();
    config_.admin.reset();
    config_.memory_bytes = 48 << 20;
    config_.max_segment_bytes = 4 << 20;
    config_.backend = GetParam();
  }
  void Start(uint32_t shards) {
    node_.reset();
    config_.shards = shards;
    Result<std::unique_ptr<kv::Node>> node = kv::Node::Start(config_);
    ASSERT_TRUE(node.ok()) << node.status().ToString();
    node_ = *std::move(node);
  }
  std::unique_ptr<StoreClient> Connect() const {
    StoreClientOptions options;
    options.seeds = {config_.listen};
    options.backend = GetParam();
    options.copies = 1;
    options.back_off_max = milliseconds(200);
    return ClientFixture::Connect(options);
  }

  kv::NodeConfig config_;
  std::unique_ptr<kv::Node> node_;
};
INSTANTIATE_TEST_SUITE_P(BackEnds, ShardTest,
                         ::testing::Values(io::Backend::kEpoll, io::Backend::kUring), BackendName);

// One placement group each; so they spread over the shards.
std::vector<Oracle> Chains(size_t count) {
  std::vector<Oracle> chains;
  for (uint32_t seed = 1; seed <= count; ++seed) chains.emplace_back(seed, 5, 20'000);
  return chains;
}

TEST_P(ShardTest, EachSegmentIsAskedOfTheShardThatOwnsIt) {
  Start(3);
  const auto client = Connect();
  const std::vector<Oracle> chains = Chains(24);
  for (const Oracle& chain : chains) {
    for (const PutOutcome& outcome : chain.Put(*client)) {
      EXPECT_EQ(outcome.copies, 1u) << outcome.status.ToString();
      EXPECT_EQ(outcome.disk_copies, 0u);
    }
  }
  size_t used = 0, stored = 0;
  for (const auto& shard : node_->shards()) {
    const size_t segments = shard->GetStatus(seconds(5))->segments;
    used += segments > 0;
    stored += segments;
  }
  EXPECT_EQ(used, 3u);
  EXPECT_EQ(stored, 24 * 5u);
  for (const Oracle& chain : chains) {
    EXPECT_EQ(client->Match(chain.refs(), seconds(5)).usable, chain.size());
    const auto load = chain.Get(*client);
    EXPECT_EQ(load.result.usable, chain.size());
    EXPECT_EQ(load.wrong, 0u);
  }
}

TEST_P(ShardTest, OneCallMayNeedSeveralShards) {
  Start(3);
  const auto client = Connect();
  const Oracle chain(1, 256, 2'000);  // four placement groups
  for (const PutOutcome& outcome : chain.Put(*client)) EXPECT_EQ(outcome.copies, 1u);
  EXPECT_EQ(client->Match(chain.refs(), seconds(5)).usable, chain.size());
  const auto load = chain.Get(*client);
  EXPECT_EQ(load.result.usable, chain.size());
  EXPECT_EQ(load.wrong, 0u);
}

TEST_P(ShardTest, ANodeThatComesBackWithOtherShardsIsLearnedAnew) {
  Start(3);
  const auto client = Connect();
  const std::vector<Oracle> chains = Chains(6);
  for (const Oracle& chain : chains) chain.Put(*client);
  for (uint32_t shards : {1, 4}) {
    SCOPED_TRACE(shards);
    Start(shards);
    for (const Oracle& chain : chains) {
      EXPECT_TRUE(Eventually([&] {
        return chain.Put(*client)[0].copies == 1 && chain.Get(*client).result.usable == 5;
      }));
    }
  }
}

TEST_P(ShardTest, RangesAreThoseBytes) {
  Start(2);
  const auto client = Connect();
  const Oracle chain(1, 1, 100'000);
  chain.Put(*client);
  const Bytes whole = Oracle::Payload(chain.refs()[0].key, 100'000);
  Bytes buffer(100'000);
  const auto get = [&](uint64_t offset, size_t length) {
    const GetRequest request{chain.refs()[0], chain.tokens(0),
                             MutableByteSpan(buffer).first(length), offset};
    const GetResult result = client->Get({&request, 1}, chain.layout(), seconds(5));
    EXPECT_EQ(result.bytes, length * result.usable);
    return result.misses[0];
  };
  for (const auto& [offset, length] :
       std::vector<std::pair<uint64_t, size_t>>{{0, 1}, {99'999, 1}, {5, 70'000}, {0, 100'000}}) {
    EXPECT_EQ(get(offset, length), MissReason::kNone);
    EXPECT_TRUE(std::ranges::equal(ByteSpan(buffer).first(length),
                                   ByteSpan(whole).subspan(offset, length)));
  }
  EXPECT_EQ(get(1, 100'000), MissReason::kLayoutDiffers);
  EXPECT_EQ(get(100'001, 1), MissReason::kLayoutDiffers);
}

TEST_P(ShardTest, WhatIsLeasedStaysUntilReleased) {
  Start(1);
  auto client = Connect();
  const Oracle leased(1, 8, 200'000);
  leased.Put(*client);
  const auto flood = [&](uint32_t seed) {
    for (uint32_t i = 0; i < 8; ++i) Oracle(seed + i, 40, 200'000).Put(*client);
  };
  {
    const MatchResult match = client->Match(leased.refs(), seconds(5), {.lease = seconds(60)});
    EXPECT_EQ(match.usable, leased.size());
    EXPECT_TRUE(match.lease.held());
    flood(100);
    EXPECT_EQ(leased.Get(*client).result.usable, leased.size());
  }
  EXPECT_TRUE(Eventually([&] {
    flood(200);
    return client->Match(leased.refs(), seconds(5)).usable == 0;
  }));
  EXPECT_FALSE(client->Match(leased.refs(), seconds(5), {.lease = seconds(60)}).lease.held());
}

TEST_P(ShardTest, ALeaseMayOutliveItsClient) {
  Start(2);
  auto client = Connect();
  const Oracle chain(1, 8, 1'000);
  chain.Put(*client);
  Lease lease = client->Match(chain.refs(), seconds(5), {.lease = seconds(60)}).lease;
  EXPECT_TRUE(lease.held());
  client.reset();
  lease.Release();
  EXPECT_FALSE(lease.held());
}

}  // namespace
}  // namespace ember::testing
