// Replicas that hang while their health page is good, and clients that do not wait until the router
// gives them up (D19): who is put out, and who only looks like it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "tests/unit/router/router_fixture.h"

namespace ember::router {
namespace {

using http::Eventually;
using http::Signal;
using http::TestSocket;
using http::WireMessage;
using std::chrono::steady_clock;

const std::string kAtR1 = "x-ember-pin: r1\r\n", kAtR2 = "x-ember-pin: r2\r\n";

std::string Prompt(const std::string& text, const char* stream = "true") {
  return R"({"messages":[{"role":"user","content":")" + text + R"("}],"stream":)" + stream + "}";
}

// Two replicas; r1 answers all but "hang", which gets nothing, and "tick", a stream that says one
// thing more when it is told to.
class HangingTest : public testing::Test {
 protected:
  static constexpr int kKnown = 3;

  void SetUp() override {
    for (int i = 0; i < kKnown; ++i) {
      for (const std::string& pin : {kAtR1, kAtR2}) {
        const auto from = steady_clock::now();
        ASSERT_EQ(router.Ask(Post(Prompt("good"), pin)).status(), 200);
        ASSERT_EQ(router.Ask(Post(Prompt("whole", "false"), pin)).status(), 200);
        slowest_ = std::max(slowest_, std::chrono::ceil<milliseconds>(steady_clock::now() - from));
      }
    }
  }
  void TearDown() override { end.Set(); }

  // As many clients as have a prompt ask r1; `meanwhile`, and all leave when they waited long.
  void WaitInVainAtR1(const std::vector<std::string>& prompts,
                      const std::function<void()>& meanwhile) {
    const int before = one.requests();
    std::vector<TestSocket> clients;
    for (const std::string& prompt : prompts) {
      clients.push_back(router.Client());
      clients.back().Send(Post(prompt, kAtR1));
    }
    const int all = before + static_cast<int>(prompts.size());
    ASSERT_TRUE(Eventually([&] { return one.requests() == all; }));
    meanwhile();
    ASSERT_TRUE(clients.front().StaysSilent(std::max(milliseconds(1100), 12 * slowest_)));
    for (TestSocket& client : clients) client.Close();
    ASSERT_TRUE(Eventually([&] { return router.Status().replicas[0].under_way == 0; }));
  }
  void OtherAnswers() { EXPECT_EQ(router.Ask(Post(Prompt("good"), kAtR2)).status(), 200); }
  std::string StateOfR1() const { return router.Status().replicas[0].state; }

  static std::vector<std::string> Three(const char* stream = "true") {
    return {Prompt("hang 1", stream), Prompt("hang 2", stream), Prompt("hang 3", stream)};
  }

  Signal tick, end;
  FakeReplica::Script script = [this](TestSocket& peer, const WireMessage& request) {
    if (request.body.find("hang") != request.body.npos) return (void)peer.AwaitClose();
    if (request.body.find("whole") != request.body.npos) {
      return (void)peer.Send(JsonReply(200, "{}"));
    }
    if (request.body.find("tick") == request.body.npos) {
      return (void)peer.Send(StreamReply("data: [DONE]\n\n"));
    }
    peer.Send(kStreamBegun);
    tick.Await();
    peer.Send("9\r\ndata: 2\n\n\r\n");
    end.Await();
  };
  FakeReplica one{script}, two{script};
  RouterFixture router{{one.origin(), two.origin()}};
  milliseconds slowest_{0};
};

TEST_F(HangingTest, ThreeClientsThatLeftWithoutAReplyWhileOthersWereAnsweredPutItOut) {
  WaitInVainAtR1(Three(), [&] { OtherAnswers(); });
  EXPECT_TRUE(Eventually([&] { return StateOfR1() == "ejected"; }));
  EXPECT_THAT(router.Page("/metrics"),
              testing::HasSubstr("_ejections_total{replica=\"r1\",reason=\"timeout\"} 1"));
}

TEST_F(HangingTest, SoDoThoseWhoWantTheirReplyWhole) {
  WaitInVainAtR1(Three("false"), [&] { OtherAnswers(); });
  EXPECT_TRUE(Eventually([&] { return StateOfR1() == "ejected"; }));
}

TEST_F(HangingTest, OneThatComputesForAnybodyMeanwhileIsBusy) {
  TestSocket stream = router.Client();
  stream.Send(Post(Prompt("tick"), kAtR1));
  ASSERT_TRUE(stream.ReadUntil("data: 1\n\n"));
  WaitInVainAtR1(Three(), [&] {
    OtherAnswers();
    tick.Set();
    ASSERT_TRUE(stream.ReadUntil("data: 2\n\n"));
    stream.Close();
  });
  EXPECT_EQ(StateOfR1(), "up");
}

TEST_F(HangingTest, ALongPromptMayTakeLongAndWhatWaitsBehindItToo) {
  const std::string large = Prompt("hang" + std::string(1 << 20, 'x'));
  TestSocket first = router.Client();
  first.Send(Post(large, kAtR1));
  ASSERT_TRUE(Eventually([&] { return one.requests() == 2 * kKnown + 1; }));
  WaitInVainAtR1(Three(), [&] {
    OtherAnswers();
    first.Close();
    ASSERT_TRUE(Eventually([&] { return router.Status().replicas[0].under_way == 3; }));
  });
  EXPECT_EQ(StateOfR1(), "up");
}

TEST_F(HangingTest, ClientsThatLeaveEarlySayNothing) {
  for (int i = 0; i < 10; ++i) {
    const int before = one.requests();
    TestSocket client = router.Client();
    client.Send(Post(Prompt("hang " + std::to_string(i)), kAtR1));
    ASSERT_TRUE(Eventually([&] { return one.requests() > before; }));
    OtherAnswers();
    client.Close();
    ASSERT_TRUE(Eventually([&] { return router.Status().replicas[0].under_way == 0; }));
  }
  EXPECT_EQ(StateOfR1(), "up");
}

TEST_F(HangingTest, WhereNobodyIsAnsweredItIsNotTheReplica) {
  WaitInVainAtR1(Three(), [] {});
  EXPECT_EQ(StateOfR1(), "up");
}

TEST_F(HangingTest, OfOnePromptOnlyTheFirstCountsAndItGoesElsewhereWhenItComesAgain) {
  WaitInVainAtR1({Prompt("hang"), Prompt("hang"), Prompt("hang"), Prompt("hang")},
                 [&] { OtherAnswers(); });
  EXPECT_EQ(StateOfR1(), "up");
  const int before = one.requests(), other = two.requests();
  for (int i = 1; i <= 4; ++i) {
    TestSocket client = router.Client();
    client.Send(Post(Prompt("hang")));
    EXPECT_TRUE(Eventually([&] { return two.requests() == other + i; }));
  }
  EXPECT_EQ(one.requests(), before) << "it takes turns otherwise";
}

}  // namespace
}  // namespace ember::router
