// What is there again after a real node was stopped or killed, and what must not be.
#include "tests/crash/purge_client.h"
#include "tests/crash/store_fixture.h"

namespace ember::testing {
namespace {

constexpr size_t kChains = 40, kSegments = 8, kBytes = 50'000;

struct RestartCase {
  std::string policy;
  bool killed = false;
  uint32_t shards = 1;
};

class RestartTest : public ::testing::TestWithParam<RestartCase> {
 protected:
  RestartTest()
      : store_({"--disk=128MiB", "--memory=64MiB", "--max-segment=1MiB", "--scrub-rate=0",
                "--disk-write=" + GetParam().policy,
                "--shards=" + std::to_string(GetParam().shards)}) {}
  StoreFixture store_;
};
INSTANTIATE_TEST_SUITE_P(
    Policies, RestartTest,
    ::testing::Values(RestartCase{"through", false, 1}, RestartCase{"through", true, 2},
                      RestartCase{"second-use", false, 2}, RestartCase{"second-use", true, 1},
                      RestartCase{"demotion", false, 1}, RestartCase{"demotion", true, 2}),
    [](const auto& info) {
      const RestartCase& c = info.param;
      std::string name = c.policy + (c.killed ? "_Kill" : "_Term");
      std::erase(name, '-');
      return name;
    });

// C12. Flushed is: everything when the node is stopped in order; when it is killed, what was
// acknowledged on disk, and with `through` all that it says it has written.
TEST_P(RestartTest, C12_WhatWasFlushedIsThereAgain) {
  const bool killed = GetParam().killed;
  store_.Start();
  std::vector<Oracle> in_memory, on_disk;
  {
    const auto client = store_.Connect();
    for (uint32_t i = 0; i < kChains; ++i) {
      const bool durable = i % 2 == 0;
      const Oracle& oracle = (durable ? on_disk : in_memory).emplace_back(i, kSegments, kBytes + i);
      const AckLevel ack = durable ? AckLevel::kDisk : AckLevel::kMemory;
      for (const PutOutcome& outcome : oracle.Put(*client, seconds(30), {.ack = ack})) {
        ASSERT_EQ(outcome.copies, 1u) << outcome.status.ToString();
        if (durable) ASSERT_EQ(outcome.disk_copies, 1u) << outcome.status.ToString();
      }
    }
    if (GetParam().policy == "through") {
      ASSERT_TRUE(
          store_.EventuallyMetric("ember_store_disk_written_segments_total", kChains * kSegments));
    }
    if (killed) {
      store_.node().Kill();
    } else {
      ASSERT_TRUE(store_.node().Stop()) << store_.node().LogTail(20);
    }
  }
  const double ready_ms = store_.Start();
  std::printf("%s: ready after %.0f ms\n", killed ? "killed" : "stopped", ready_ms);
  RecordProperty("ready_ms", static_cast<int>(ready_ms));
  const auto client = store_.Connect();
  Reuse flushed, others;
  for (const Oracle& oracle : on_disk) flushed.Add(oracle, *client);
  const bool all = !killed || GetParam().policy == "through";
  for (const Oracle& oracle : in_memory) (all ? flushed : others).Add(oracle, *client);
  EXPECT_EQ(flushed.hits, flushed.asked);
  EXPECT_EQ(flushed.wrong + others.wrong, 0u);
  // Else the test above would prove nothing.
  if (!all) EXPECT_EQ(others.hits, 0u);
}

// C21: a node that comes back at once under the same name and port, while clients still have
// connections to the one before. What was only in its memory is a miss, for ever; never other
// bytes.
TEST_P(RestartTest, C21_TheSameNameAndPortAtOnce) {
  store_.Start();
  const auto client = store_.Connect();
  const Oracle durable(1, kSegments, kBytes), volatile_one(2, kSegments, kBytes);
  for (const PutOutcome& outcome : durable.Put(*client, seconds(30), {.ack = AckLevel::kDisk})) {
    ASSERT_EQ(outcome.disk_copies, 1u) << outcome.status.ToString();
  }
  volatile_one.Put(*client);
  for (int round = 0; round < 5; ++round) {
    const TimePoint begin = SteadyClock().Now();
    store_.node().Kill();
    store_.Start();
    ASSERT_TRUE(Eventually([&] { return client->Nodes().at(0).reachable; }));
    std::printf("answers again after %.0f ms\n", ToMilliseconds(SteadyClock().Now() - begin));
    Reuse kept, lost;
    ASSERT_TRUE(Eventually([&] { return durable.Get(*client).result.usable == kSegments; }));
    kept.Add(durable, *client);
    lost.Add(volatile_one, *client);
    EXPECT_EQ(kept.hits, kSegments);
    EXPECT_EQ(kept.wrong + lost.wrong, 0u);
    if (GetParam().policy != "through") EXPECT_EQ(lost.hits, 0u);
  }
}

// C21: the same disk behind another host and port.
TEST_P(RestartTest, C21_ADiskThatMovesToAnotherAddressIsTakenUpOnce) {
  std::vector<Oracle> chains;
  for (uint32_t i = 0; i < 10; ++i) chains.emplace_back(i, kSegments, kBytes);
  store_.Start();
  {
    const auto client = store_.Connect();
    for (const Oracle& chain : chains) chain.Put(*client, seconds(30), {.ack = AckLevel::kDisk});
  }
  const auto moved = store_.MakeNode(1);
  ASSERT_NE(moved->host(), store_.node().host());
  uint64_t region_bytes = 0;
  for (int round = 0; round < 4; ++round) {
    StoreProcess& from = round % 2 == 0 ? store_.node() : *moved;
    StoreProcess& to = round % 2 == 0 ? *moved : store_.node();
    if (GetParam().killed) {
      from.Kill();
    } else {
      ASSERT_TRUE(from.Stop());
    }
    StoreFixture::Start(to);
    const auto client = StoreFixture::Connect(to);
    Reuse reuse;
    for (const Oracle& chain : chains) reuse.Add(chain, *client);
    EXPECT_EQ(reuse.hits, chains.size() * kSegments);
    EXPECT_EQ(reuse.wrong, 0u);
    EXPECT_TRUE(Eventually([&] {
      return to.Metric("ember_store_disk_segments") == chains.size() * kSegments;
    })) << *to.Metric("ember_store_disk_segments");
    const uint64_t now = store_.data().Measure().region_bytes;
    if (round > 0) EXPECT_EQ(now, region_bytes) << "nothing was put, so nothing may grow";
    region_bytes = now;
  }
}

// P3: acknowledged, killed at once, and the catalog is lost besides.
TEST_P(RestartTest, P3_WhatWasPurgedStaysAway) {
  store_.Start();
  const auto client = StoreFixture::Connect(store_.node(), "tenant-a");
  const auto other = StoreFixture::Connect(store_.node(), "tenant-b");
  const Oracle by_namespace(1, kSegments, kBytes, "salt-1"),
      by_tenant(2, kSegments, kBytes, "salt-2"), spared(3, kSegments, kBytes, "salt-3");
  for (const Oracle* chain : {&by_namespace, &by_tenant}) {
    chain->Put(*client, seconds(30), {.ack = AckLevel::kDisk});
  }
  spared.Put(*other, seconds(30), {.ack = AckLevel::kDisk});
  PurgeClient purge(store_.node().grpc_address());
  using Kind = PurgeClient::Scope::Kind;
  Status status = purge.Purge({.kind = Kind::kNamespace, .ns = by_namespace.ns()}, seconds(30));
  ASSERT_TRUE(status.ok()) << status.ToString();
  status = purge.Purge({.kind = Kind::kTenant, .tenant = "tenant-a"}, seconds(30));
  ASSERT_TRUE(status.ok()) << status.ToString();
  for (int round = 0; round < 3; ++round) {
    store_.node().Kill();
    if (round > 0) store_.data().DeleteCatalog();
    store_.Start();
    Reuse purged, kept;
    const auto again = store_.Connect();
    purged.Add(by_namespace, *again);
    purged.Add(by_tenant, *again);
    kept.Add(spared, *again);
    EXPECT_EQ(purged.hits, 0u);
    EXPECT_EQ(kept.hits, kSegments);
  }
  // The name is free again: a purge forbids what was, not what comes.
  const auto again = StoreFixture::Connect(store_.node(), "tenant-a");
  for (const PutOutcome& outcome : by_tenant.Put(*again, seconds(30), {.ack = AckLevel::kDisk})) {
    EXPECT_EQ(outcome.disk_copies, 1u) << outcome.status.ToString();
  }
  store_.node().Kill();
  store_.Start();
  Reuse reuse;
  reuse.Add(by_tenant, *store_.Connect());
  EXPECT_EQ(reuse.hits, kSegments);
}

}  // namespace
}  // namespace ember::testing
