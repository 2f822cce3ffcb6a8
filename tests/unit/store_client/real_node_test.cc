// The store client against real store nodes, in this process.
#include <gtest/gtest.h>

#include <thread>

#include "kvstore/node.h"
#include "tests/unit/store_client/client_fixture.h"
#include "tests/unit/support/loopback.h"

namespace ember::testing {
namespace {

constexpr uint64_t kNodeMemory = 64 << 20;

constexpr uint16_t kFirstPort = 7101;

class RealNodeTest : public ::testing::TestWithParam<io::Backend> {
 protected:
  void SetUp() override {
    if (!ClientFixture::Available(GetParam())) GTEST_SKIP() << "the system has no such back end";
    std::string list;
    for (uint16_t port = kFirstPort; port < kFirstPort + 3; ++port) {
      const std::string id = "s" + std::to_string(configs_.size() + 1);
      kv::NodeConfig config;
      config.node_id = id;
      config.listen = {OwnLoopbackAddress(), port};
      config.grpc.reset();
      config.admin.reset();
      config.memory_bytes = kNodeMemory;
      config.max_segment_bytes = 4 << 20;
      config.backend = GetParam();
      configs_.push_back(config);
      list += (list.empty() ? "" : ",") + id + "=" + config.listen.ToString();
    }
    Result<cluster::View> view = cluster::ParseStaticView(list);
    ASSERT_TRUE(view.ok());
    for (kv::NodeConfig& config : configs_) config.peers = *view;
    nodes_.resize(configs_.size());
    for (size_t i = 0; i < configs_.size(); ++i) Start(i);
  }
  void Start(size_t i) {
    Result<std::unique_ptr<kv::Node>> node = kv::Node::Start(configs_[i]);
    ASSERT_TRUE(node.ok()) << node.status().ToString();
    nodes_[i] = *std::move(node);
  }
  std::unique_ptr<StoreClient> Connect() {
    StoreClientOptions options;
    for (const kv::NodeConfig& config : configs_) options.seeds.push_back(config.listen);
    options.backend = GetParam();
    options.back_off_max = milliseconds(200);
    options.metrics = &metrics_;
    return ClientFixture::Connect(options);
  }

  std::vector<kv::NodeConfig> configs_;
  std::vector<std::unique_ptr<kv::Node>> nodes_;
  MetricsRegistry metrics_;
};
INSTANTIATE_TEST_SUITE_P(BackEnds, RealNodeTest,
                         ::testing::Values(io::Backend::kEpoll, io::Backend::kUring), BackendName);

TEST_P(RealNodeTest, WhatWasPutIsMatchedAndLoaded) {
  const auto client = Connect();
  for (const size_t bytes : {1, 4095, 100'000, 1 << 20}) {
    SCOPED_TRACE(bytes);
    const Oracle chain(static_cast<uint32_t>(bytes), 12, bytes);
    for (const PutOutcome& outcome : chain.Put(*client)) {
      EXPECT_EQ(outcome.copies, 2u) << outcome.status.ToString();
    }
    EXPECT_TRUE(chain.Put(*client)[0].was_there);
    EXPECT_EQ(client->Match(chain.refs(), seconds(5)).usable, chain.size());
    const auto load = chain.Get(*client);
    EXPECT_EQ(load.result.usable, chain.size());
    EXPECT_EQ(load.wrong, 0u);
  }
}

TEST_P(RealNodeTest, ASegmentTooLargeForTheNodesIsRefusedAlone) {
  const auto client = Connect();
  const Oracle small(1, 1, 1000), large(2, 1, 5 << 20);
  EXPECT_EQ(large.Put(*client)[0].copies, 0u);
  EXPECT_FALSE(large.Put(*client)[0].status.ok());
  EXPECT_EQ(small.Put(*client)[0].copies, 2u);
}

// C26 with real evictions: far more is put than fits; what a match promised may be gone at the get,
// and then the prefix ends there.
TEST_P(RealNodeTest, EvictionBetweenMatchAndGetCutsThePrefix) {
  const auto client = Connect();
  constexpr size_t kBytes = 256 << 10;
  const Oracle victim(1, 40, kBytes);
  victim.Put(*client);
  ASSERT_EQ(client->Match(victim.refs(), seconds(5)).usable, victim.size());
  for (uint32_t seed = 2; seed < 24; ++seed) Oracle(seed, 40, kBytes).Put(*client);
  const auto load = victim.Get(*client);
  EXPECT_LT(load.result.usable, victim.size());
  EXPECT_EQ(load.result.misses[load.result.usable], MissReason::kEvicted);
  EXPECT_EQ(load.wrong, 0u);
  const Oracle last(23, 40, kBytes);
  EXPECT_EQ(last.Get(*client).result.usable, last.size());
}

TEST_P(RealNodeTest, StoppedAndRestartedNodes) {
  const auto client = Connect();
  const Oracle chain(1, 80, 10'000);
  chain.Put(*client);
  for (size_t i = 0; i < nodes_.size(); ++i) {
    SCOPED_TRACE(i);
    nodes_[i].reset();
    const auto load = chain.Get(*client);
    EXPECT_EQ(load.result.usable, chain.size());
    EXPECT_EQ(load.wrong, 0u);
    Start(i);
    // Back with nothing: the next put restores its copies before another node goes.
    EXPECT_TRUE(Eventually([&] {
      const auto outcomes = chain.Put(*client);
      return std::ranges::all_of(outcomes, [](const PutOutcome& o) { return o.copies == 2; });
    }));
  }
}

// C25: 96 threads, more than the memory holds, a node killed on the way; every byte is the
// oracle's.
TEST_P(RealNodeTest, ManyThreadsReadOnlyWhatWasPut) {
  const auto client = Connect();
  std::atomic<size_t> wrong = 0, loaded = 0;
  std::vector<std::thread> threads;
  for (uint32_t t = 0; t < 96; ++t) {
    threads.emplace_back([&, t] {
      for (uint32_t round = 0; round < 6; ++round) {
        const Oracle own(t, 8, 150'000 + t), shared(1000 + (t + round) % 24, 8, 150'000);
        for (const Oracle* chain : {&own, &shared}) {
          chain->Put(*client, seconds(60));
          client->Match(chain->refs(), seconds(60));
          const auto load = chain->Get(*client, seconds(60));
          wrong += load.wrong;
          loaded += load.result.usable;
        }
      }
    });
  }
  std::thread killer([&] {
    EXPECT_TRUE(Eventually([&] { return loaded > 1000; }));
    nodes_[1].reset();
    Start(1);
  });
  for (std::thread& thread : threads) thread.join();
  killer.join();
  EXPECT_EQ(wrong, 0u);
  EXPECT_GT(loaded, 96 * 6 * 8u);  // of twice as many
}

}  // namespace
}  // namespace ember::testing
