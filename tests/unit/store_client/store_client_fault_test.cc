// The store client against nodes that hang, lie and break off: no wrong bytes, no hang, the other
// copy serves.
#include <gtest/gtest.h>

#include <tuple>

#include "tests/unit/store_client/client_fixture.h"

namespace ember::testing {
namespace {

using std::chrono::steady_clock;

constexpr Duration kTimeout = milliseconds(1500);
constexpr Duration kSlack = milliseconds(1500);  // of a busy machine
constexpr size_t kSegments = 12;
constexpr size_t kPayload = 4096;

struct FaultCase {
  const char* name;
  Fault fault;
};

// By any of these one copy of every segment is of no use.
constexpr FaultCase kFaults[] = {
    {"Silent", Fault::kSilent},
    {"Mute", Fault::kMute},
    {"Trickle", Fault::kTrickle},
    {"StallsMidPayload", Fault::kStallsMidPayload},
    {"ClosesMidPayload", Fault::kClosesMidPayload},
    {"ClosesOnRequest", Fault::kClosesOnRequest},
    {"FlipsByte", Fault::kFlipsByte},
    {"FlipsHeader", Fault::kFlipsHeader},
    {"LongPayload", Fault::kLongPayload},
    {"ShortPayload", Fault::kShortPayload},
    {"Garbage", Fault::kGarbage},
    {"WrongReply", Fault::kWrongReply},
    {"WrongRequestId", Fault::kWrongRequestId},
    {"WrongId", Fault::kWrongId},
    {"HugeMembers", Fault::kHugeMembers},
    {"Busy", Fault::kBusy},
    {"LosesSegments", Fault::kLosesSegments},
};

class FaultTest : public ::testing::TestWithParam<std::tuple<io::Backend, FaultCase>>,
                  public ClientFixture {
 protected:
  FaultTest() : ClientFixture(std::get<0>(GetParam())) {}
  void SetUp() override {
    if (!Available(std::get<0>(GetParam()))) GTEST_SKIP() << "the system has no such back end";
    StartNodes(2);
    auto writer = Connect();
    chain.Put(*writer);
  }
  Fault fault() const { return std::get<1>(GetParam()).fault; }

  const Oracle chain{1, kSegments, kPayload};
};
INSTANTIATE_TEST_SUITE_P(
    All, FaultTest,
    ::testing::Combine(::testing::Values(io::Backend::kEpoll, io::Backend::kUring),
                       ::testing::ValuesIn(kFaults)),
    [](const auto& info) {
      return std::string(std::get<0>(info.param) == io::Backend::kUring ? "Uring" : "Epoll") +
             std::get<1>(info.param).name;
    });

TEST_P(FaultTest, TheOtherCopyServes) {
  nodes[0]->set_fault(fault());
  const auto client = Connect();
  for (int round = 0; round < 3; ++round) {
    // Before any match, so that the bad owner is asked for its half.
    const auto load = chain.Get(*client, kTimeout);
    EXPECT_EQ(load.result.usable, kSegments) << round;
    EXPECT_EQ(load.wrong, 0u);
    const auto start = steady_clock::now();
    EXPECT_EQ(client->Match(chain.refs(), kTimeout).usable, kSegments) << round;
    EXPECT_LT(steady_clock::now() - start, kTimeout) << "the live owner's answer was enough";
  }
}

TEST_P(FaultTest, WhenNoCopyIsAnyGoodTheCallsEndInTimeWithAReason) {
  for (auto& node : nodes) node->set_fault(fault());
  const auto client = Connect();
  for (int round = 0; round < 2; ++round) {
    auto start = steady_clock::now();
    client->Match(chain.refs(), kTimeout);
    EXPECT_LT(steady_clock::now() - start, kTimeout + kSlack);
    start = steady_clock::now();
    const auto load = chain.Get(*client, kTimeout);
    EXPECT_LT(steady_clock::now() - start, kTimeout + kSlack);
    EXPECT_EQ(load.result.usable, 0u);
    EXPECT_NE(load.result.misses[0], MissReason::kNone);
    EXPECT_EQ(load.wrong, 0u);
  }
}

TEST_P(FaultTest, APutEndsInTimeAndTheGoodOwnerHasIt) {
  nodes[0]->set_fault(fault());
  const auto client = Connect();
  const Oracle fresh(2, kSegments, kPayload);
  const auto start = steady_clock::now();
  const auto outcomes = fresh.Put(*client, kTimeout);
  EXPECT_LT(steady_clock::now() - start, kTimeout + kSlack);
  for (const PutOutcome& outcome : outcomes) {
    EXPECT_GE(outcome.copies, 1u);
    EXPECT_EQ(outcome.copies == 2, outcome.status.ok()) << outcome.status.ToString();
  }
}

// A read that was in flight at the deadline must not come back to life in the caller's memory.
TEST_P(FaultTest, NothingIsWrittenIntoTheBuffersAfterTheCall) {
  for (auto& node : nodes) node->set_fault(fault());
  const auto client = Connect();
  auto load = chain.Get(*client, milliseconds(300));
  for (auto& node : nodes) node->set_fault(Fault::kNone);  // what was held back flows now
  const Bytes pattern(kPayload, std::byte{0xa5});
  for (Bytes& buffer : load.buffers) buffer = pattern;
  const Oracle fresh(3, kSegments, kPayload);
  ASSERT_TRUE(Eventually([&] { return fresh.Put(*client, kTimeout)[0].copies == 2; }));
  for (const Bytes& buffer : load.buffers) EXPECT_EQ(buffer, pattern);
}

class SingleFaultTest : public ::testing::TestWithParam<io::Backend>, public ClientFixture {
 protected:
  SingleFaultTest() : ClientFixture(GetParam()) {}
  void SetUp() override {
    if (!Available(GetParam())) GTEST_SKIP() << "the system has no such back end";
    StartNodes(2);
    auto writer = Connect();
    chain.Put(*writer);
  }
  const Oracle chain{1, kSegments, kPayload};
};
INSTANTIATE_TEST_SUITE_P(BackEnds, SingleFaultTest,
                         ::testing::Values(io::Backend::kEpoll, io::Backend::kUring), BackendName);

TEST_P(SingleFaultTest, CorruptBytesAreReportedAndCounted) {
  nodes[1]->set_fault(Fault::kFlipsByte);
  const auto client = Connect();
  const auto load = chain.Get(*client);
  EXPECT_EQ(load.result.usable, kSegments);
  EXPECT_EQ(load.wrong, 0u);
  const auto corrupt = CounterValue("ember_client_corrupt_total");
  EXPECT_EQ(corrupt, kSegments / 2);
  EXPECT_TRUE(Eventually([&] { return nodes[1]->corrupt_reports == static_cast<int>(corrupt); }));
  EXPECT_EQ(nodes[0]->corrupt_reports, 0);
}

TEST_P(SingleFaultTest, CorruptEverywhereIsAMiss) {
  for (auto& node : nodes) node->set_fault(Fault::kFlipsByte);
  const auto load = chain.Get(*Connect());
  EXPECT_EQ(load.result.usable, 0u);
  EXPECT_EQ(load.result.misses[0], MissReason::kCorrupt);
}

TEST_P(SingleFaultTest, AnotherNodeAtTheAddressIsNamed) {
  nodes[0]->set_fault(Fault::kWrongId);
  auto options = Options();
  options.seeds = {{"127.0.0.1", nodes[1]->port()}};
  const auto client = Connect(options);
  const auto states = client->Nodes();
  ASSERT_EQ(states.size(), 2u);
  EXPECT_FALSE(states[0].reachable);
  EXPECT_NE(states[0].last_error.find("somebody-else"), std::string::npos) << states[0].last_error;
  EXPECT_NE(states[0].last_error.find("mismatch"), std::string::npos) << states[0].last_error;
  EXPECT_TRUE(states[1].reachable);
}

// A frozen node costs one failed try, then none until its back-off ends.
TEST_P(SingleFaultTest, AFrozenNodeIsSkippedDuringItsBackOff) {
  auto options = Options();
  options.back_off_min = seconds(30);
  options.back_off_max = seconds(30);
  const auto client = Connect(options);
  ASSERT_EQ(chain.Get(*client).result.usable, kSegments);
  nodes[0]->set_fault(Fault::kMute);
  EXPECT_EQ(chain.Get(*client, milliseconds(1200)).result.usable, kSegments);
  const int asked = nodes[0]->requests;
  for (int i = 0; i < 20; ++i) {
    const auto start = steady_clock::now();
    EXPECT_EQ(chain.Get(*client, seconds(30)).result.usable, kSegments);
    EXPECT_LT(steady_clock::now() - start, seconds(2));
    EXPECT_EQ(chain.Put(*client, seconds(30))[0].copies, 1u);
  }
  EXPECT_EQ(nodes[0]->requests, asked);
}

TEST_P(SingleFaultTest, AShortMatchReplyIsNotBelieved) {
  nodes[0]->set_fault(Fault::kShortMatch);
  const auto client = Connect();
  EXPECT_EQ(client->Match(chain.refs(), seconds(5)).usable, kSegments);
  nodes[1]->set_fault(Fault::kShortMatch);
  const auto match = Connect()->Match(chain.refs(), seconds(5));
  EXPECT_EQ(match.usable, 0u);
  EXPECT_EQ(match.segments[0].miss, MissReason::kLostNode);
}

TEST_P(SingleFaultTest, ARefusedCommitIsNoCopy) {
  nodes[0]->set_fault(Fault::kRefusesCommit);
  const Oracle fresh(2, kSegments, kPayload);
  for (const PutOutcome& outcome : fresh.Put(*Connect())) {
    EXPECT_EQ(outcome.copies, 1u);
    EXPECT_EQ(outcome.status.code(), StatusCode::kCorrupt);
  }
}

}  // namespace
}  // namespace ember::testing
