// The store client against honest nodes that come, go and forget.
#include "client/store_client/store_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "proto/wire/limits.h"
#include "tests/unit/store_client/client_fixture.h"

namespace ember::testing {
namespace {

using std::chrono::steady_clock;
using ::testing::Each;
using ::testing::HasSubstr;

class StoreClientTest : public ::testing::TestWithParam<io::Backend>, public ClientFixture {
 protected:
  StoreClientTest() : ClientFixture(GetParam()) {}
  void SetUp() override {
    if (!Available(GetParam())) GTEST_SKIP() << "the system has no such back end";
  }
};
INSTANTIATE_TEST_SUITE_P(BackEnds, StoreClientTest,
                         ::testing::Values(io::Backend::kEpoll, io::Backend::kUring), BackendName);

TEST_P(StoreClientTest, WhatWasPutIsMatchedAndLoaded) {
  StartNodes(3);
  const auto client = Connect();
  const Oracle chain(1, 80, 10'000);  // more than one placement group
  for (const PutOutcome& outcome : chain.Put(*client)) {
    EXPECT_EQ(outcome.copies, 2u);
    EXPECT_FALSE(outcome.was_there);
    EXPECT_TRUE(outcome.status.ok()) << outcome.status.ToString();
  }
  const MatchResult match = client->Match(chain.refs(), seconds(5));
  EXPECT_EQ(match.usable, chain.size());
  for (const SegmentMatch& segment : match.segments) EXPECT_EQ(segment.payload_bytes, 10'000u);
  const auto load = chain.Get(*client);
  EXPECT_EQ(load.result.usable, chain.size());
  EXPECT_EQ(load.result.bytes, chain.size() * 10'000);
  EXPECT_EQ(load.wrong, 0u);
  EXPECT_EQ(load.result.headers[0].writer, "client");
}

TEST_P(StoreClientTest, APutOfWhatIsThereSendsNothing) {
  StartNodes(2);
  const auto client = Connect();
  const Oracle chain(1, 5, 1000);
  chain.Put(*client);
  const uint64_t pushed = CounterValue("ember_client_payload_bytes_total", {{"direction", "push"}});
  EXPECT_EQ(pushed, 2 * 5 * 1000u);
  for (const PutOutcome& outcome : chain.Put(*client)) {
    EXPECT_TRUE(outcome.was_there);
    EXPECT_EQ(outcome.copies, 2u);
  }
  EXPECT_EQ(CounterValue("ember_client_payload_bytes_total", {{"direction", "push"}}), pushed);
}

TEST_P(StoreClientTest, LoadsAreSpreadOverTheCopies) {
  StartNodes(2);
  const auto client = Connect();
  const Oracle chain(1, 40, 1000);
  chain.Put(*client);
  EXPECT_EQ(chain.Get(*client).result.usable, 40u);
  EXPECT_EQ(nodes[0]->payloads_sent, 20);
  EXPECT_EQ(nodes[1]->payloads_sent, 20);
}

TEST_P(StoreClientTest, ASingleNodeIsAClusterOfOne) {
  StartNodes(1);
  nodes[0]->set_members({});
  const auto client = Connect();
  const Oracle chain(1, 3, 100);
  for (const PutOutcome& outcome : chain.Put(*client)) {
    EXPECT_EQ(outcome.copies, 1u);
    EXPECT_TRUE(outcome.status.ok());  // a second copy has no place
  }
  EXPECT_EQ(chain.Get(*client).wrong, 0u);
}

TEST_P(StoreClientTest, BatchesLargerThanAMessageMayBe) {
  StartNodes(2);
  const auto client = Connect();
  const Oracle chain(1, wire::kMaxKeysPerBatch + 500, 16);
  for (const PutOutcome& outcome : chain.Put(*client, seconds(60))) ASSERT_EQ(outcome.copies, 2u);
  EXPECT_EQ(client->Match(chain.refs(), seconds(20)).usable, chain.size());
  const auto load = chain.Get(*client, seconds(60));
  EXPECT_EQ(load.result.usable, chain.size());
  EXPECT_EQ(load.wrong, 0u);
}

TEST_P(StoreClientTest, NothingAskedIsNothingAnswered) {
  StartNodes(1);
  const auto client = Connect();
  EXPECT_EQ(client->Match({}, seconds(1)).usable, 0u);
  EXPECT_EQ(client->Get({}, {}, seconds(1)).usable, 0u);
  EXPECT_TRUE(client->Put({}, {}, seconds(1)).empty());
}

TEST_P(StoreClientTest, RefusesPayloadsThatCantBe) {
  StartNodes(1);
  const auto client = Connect();
  const Oracle chain(1, 2, 8);
  const Bytes huge(wire::kMaxPayloadBytes + 1);
  const std::vector<PutRequest> requests = {{chain.refs()[0], chain.tokens(0), {}, {}},
                                            {chain.refs()[1], chain.tokens(1), huge, {}}};
  for (const PutOutcome& outcome : client->Put(requests, chain.layout(), seconds(5))) {
    EXPECT_EQ(outcome.status.code(), StatusCode::kInvalid);
    EXPECT_EQ(outcome.copies, 0u);
  }
}

TEST_P(StoreClientTest, TheOtherCopyServesWhenANodeIsKilled) {
  StartNodes(3);
  const auto client = Connect();
  const Oracle chain(1, 80, 1000);
  chain.Put(*client);
  nodes[1]->Stop();
  EXPECT_EQ(client->Match(chain.refs(), seconds(5)).usable, chain.size());
  const auto load = chain.Get(*client);
  EXPECT_EQ(load.result.usable, chain.size());
  EXPECT_EQ(load.wrong, 0u);
}

TEST_P(StoreClientTest, APutWithOneOwnerDownMakesFewerCopies) {
  StartNodes(2);
  const auto client = Connect();
  nodes[0]->Stop();
  const Oracle chain(1, 10, 1000);
  for (const PutOutcome& outcome : chain.Put(*client)) {
    EXPECT_EQ(outcome.copies, 1u);
    EXPECT_EQ(outcome.status.code(), StatusCode::kUnavailable);
  }
  EXPECT_EQ(chain.Get(*client).wrong, 0u);
}

TEST_P(StoreClientTest, WithNoNodeEverythingIsAMissAtOnce) {
  StartNodes(2);
  const auto client = Connect();
  const Oracle chain(1, 10, 1000);
  chain.Put(*client);
  for (auto& node : nodes) node->Stop();
  const auto start = steady_clock::now();
  const MatchResult match = client->Match(chain.refs(), seconds(30));
  EXPECT_EQ(match.usable, 0u);
  EXPECT_EQ(match.segments[0].miss, MissReason::kLostNode);
  const auto load = chain.Get(*client, seconds(30));
  EXPECT_EQ(load.result.usable, 0u);
  EXPECT_THAT(load.result.misses, Each(MissReason::kLostNode));
  for (const PutOutcome& outcome : chain.Put(*client, seconds(30))) {
    EXPECT_EQ(outcome.copies, 0u);
    EXPECT_EQ(outcome.status.code(), StatusCode::kUnavailable);
  }
  EXPECT_LT(steady_clock::now() - start, seconds(5));
}

// A node that was restarted with empty memory is used again, and what it lost is said to be lost.
TEST_P(StoreClientTest, ARestartedNodeIsJoinedAgain) {
  StartNodes(2);
  auto options = Options();
  options.back_off_max = milliseconds(200);
  const auto client = Connect(options);
  const Oracle chain(1, 10, 1000);
  chain.Put(*client);
  nodes[0]->Stop();
  EXPECT_EQ(chain.Get(*client).result.usable, 10u);
  nodes[0]->Start();
  EXPECT_TRUE(Eventually([&] {
    const auto states = client->Nodes();
    return states.size() == 2 && states[0].reachable && states[1].reachable;
  }));
  nodes[1]->Stop();
  const MatchResult match = client->Match(chain.refs(), seconds(5));
  EXPECT_EQ(match.segments[0].miss, MissReason::kLostNode);
  for (const PutOutcome& outcome : chain.Put(*client)) EXPECT_EQ(outcome.copies, 1u);
  EXPECT_EQ(chain.Get(*client).result.usable, 10u);
}

// A connection kept over a restart is found to be dead, and costs nothing but another connect.
TEST_P(StoreClientTest, ARestartBetweenTwoCallsIsNotSeen) {
  StartNodes(1);
  const auto client = Connect();
  const Oracle chain(1, 10, 1000);
  chain.Put(*client);
  nodes[0]->Stop();
  nodes[0]->Start(/*keep_segments=*/true);
  EXPECT_EQ(chain.Get(*client).result.usable, 10u);
}

// C30: a store that starts late.
TEST_P(StoreClientTest, AStoreThatStartsLateIsJoined) {
  StartNodes(1);
  nodes[0]->Stop();
  const auto client = Connect();
  const Oracle chain(1, 3, 100);
  const auto start = steady_clock::now();
  EXPECT_EQ(client->Match(chain.refs(), seconds(10)).segments[0].miss, MissReason::kLostNode);
  EXPECT_EQ(chain.Put(*client)[0].status.code(), StatusCode::kUnavailable);
  ASSERT_EQ(client->Nodes().size(), 1u);
  EXPECT_THAT(client->Nodes()[0].last_error, HasSubstr("refused"));
  EXPECT_LT(steady_clock::now() - start, seconds(2));
  nodes[0]->Start();
  EXPECT_TRUE(Eventually([&] { return chain.Put(*client)[0].copies == 1; }));
}

// C26: gone between match and get, at every place in the chain.
TEST_P(StoreClientTest, APrefixIsCutAtTheFirstSegmentThatIsGone) {
  for (const size_t gone : {0u, 7u, 19u}) {
    SCOPED_TRACE(gone);
    nodes.clear();
    StartNodes(2);
    const auto client = Connect();
    const Oracle chain(1, 20, 1000);
    chain.Put(*client);
    ASSERT_EQ(client->Match(chain.refs(), seconds(5)).usable, 20u);
    for (auto& node : nodes) node->Evict(chain.refs()[gone].key);
    const auto load = chain.Get(*client);
    EXPECT_EQ(load.result.usable, gone);
    EXPECT_EQ(load.result.misses[gone], MissReason::kEvicted);
    EXPECT_EQ(load.wrong, 0u);
  }
}

TEST_P(StoreClientTest, NothingIsAskedBeyondTheFirstMiss) {
  StartNodes(1);
  const auto client = Connect();
  const Oracle chain(1, 80, 1 << 20);  // more than one batch
  chain.Put(*client, seconds(60));
  nodes[0]->Evict(chain.refs()[0].key);
  const auto load = chain.Get(*client, seconds(60));
  EXPECT_EQ(load.result.usable, 0u);
  EXPECT_EQ(load.result.misses.back(), MissReason::kEvicted);
  EXPECT_LT(nodes[0]->payloads_sent, 40);
}

TEST_P(StoreClientTest, ACopyThatIsGoneAtOneOwnerIsLoadedFromTheOther) {
  StartNodes(2);
  const auto client = Connect();
  const Oracle chain(1, 20, 1000);
  chain.Put(*client);
  ASSERT_EQ(client->Match(chain.refs(), seconds(5)).usable, 20u);
  for (size_t i = 0; i < chain.size(); ++i) nodes[i % 2]->Evict(chain.refs()[i].key);
  const auto load = chain.Get(*client);
  EXPECT_EQ(load.result.usable, 20u);
  EXPECT_EQ(load.wrong, 0u);
  EXPECT_GT(CounterValue("ember_client_failovers_total"), 0u);
}

TEST_P(StoreClientTest, OtherTokensOrProofUnderTheSameKeyAreAMiss) {
  StartNodes(2);
  const auto client = Connect();
  const Oracle chain(1, 1, 1000);
  chain.Put(*client);
  const std::vector<TokenId> other_tokens(64, 3);
  Bytes buffer(1000);
  const GetRequest request{chain.refs()[0], other_tokens, buffer};
  EXPECT_EQ(client->Get({&request, 1}, chain.layout(), seconds(5)).misses[0],
            MissReason::kOtherSalt);
  const GetRequest good{chain.refs()[0], chain.tokens(0), buffer};
  EXPECT_EQ(client->Get({&good, 1}, LayoutDigest{}, seconds(5)).misses[0],
            MissReason::kLayoutDiffers);
  EXPECT_EQ(client->Get({&good, 1}, chain.layout(), seconds(5)).misses[0], MissReason::kNone);
}

TEST_P(StoreClientTest, ShutdownEndsCallsInFlight) {
  StartNodes(2);
  auto client = Connect();
  const Oracle chain(1, 10, 1000);
  chain.Put(*client);
  for (auto& node : nodes) node->set_fault(Fault::kMute);
  const auto start = steady_clock::now();
  std::vector<std::thread> callers;
  const int before = nodes[0]->requests + nodes[1]->requests;
  for (int i = 0; i < 4; ++i) {
    callers.emplace_back([&] { EXPECT_EQ(chain.Get(*client, seconds(60)).result.usable, 0u); });
    callers.emplace_back([&] { EXPECT_EQ(client->Match(chain.refs(), seconds(60)).usable, 0u); });
    callers.emplace_back([&] { EXPECT_EQ(chain.Put(*client, seconds(60))[0].copies, 0u); });
  }
  EXPECT_TRUE(Eventually([&] { return nodes[0]->requests + nodes[1]->requests >= before + 4; }));
  client->Shutdown();
  for (std::thread& caller : callers) caller.join();
  EXPECT_LT(steady_clock::now() - start, seconds(10));
  EXPECT_EQ(chain.Put(*client)[0].status.code(), StatusCode::kCancelled);
  EXPECT_EQ(client->Match(chain.refs(), seconds(5)).segments[0].miss, MissReason::kLostNode);
}

TEST(StoreClientOptionsTest, BadOnesAreRefused) {
  StoreClientOptions good;
  good.seeds = {{"127.0.0.1", 1}};
  EXPECT_TRUE(StoreClient::Create(good).ok());
  for (const auto& spoil : std::vector<std::function<void(StoreClientOptions*)>>{
           [](auto* o) { o->seeds.clear(); }, [](auto* o) { o->seeds[0].port = 0; },
           [](auto* o) { o->copies = 0; }, [](auto* o) { o->copies = kMaxCopies + 1; },
           [](auto* o) { o->name.assign(300, 'x'); },
           [](auto* o) { o->connect_timeout = Duration(0); },
           [](auto* o) { o->back_off_max = o->back_off_min - Duration(1); }}) {
    StoreClientOptions bad = good;
    spoil(&bad);
    EXPECT_EQ(StoreClient::Create(bad).status().code(), StatusCode::kInvalid);
  }
}

}  // namespace
}  // namespace ember::testing
