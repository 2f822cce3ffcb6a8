#include "router/fleet/health.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "router/fleet/join_watch.h"

namespace ember::router {
namespace {

using State = Health::State;
using Reply = Health::Reply;

TimePoint At(int ms) { return TimePoint() + milliseconds(ms); }

class HealthTest : public testing::Test {
 protected:
  void Probe(int ms, const Status& status = OkStatus()) { h.OnProbe(status, At(ms)); }
  void Say(Reply reply, int times, int ms = 0) {
    for (int i = 0; i < times; ++i) h.OnReply(reply, "status 500", peers, At(ms));
  }
  // Probes every 250 ms from `ms` on until it is usable again; when that was.
  int BackAt(int ms) {
    while (!h.usable() && ms < 1'000'000) Probe(ms += 250);
    return ms;
  }
  Health h;
  Health::Peers peers;
};

TEST_F(HealthTest, JoinsWithTheFirstGoodProbe) {
  EXPECT_FALSE(h.usable());
  EXPECT_TRUE(h.untried());
  EXPECT_LE(h.probe_delay(), milliseconds(250));
  Probe(0, UnavailableError("refused"));
  EXPECT_FALSE(h.untried());
  EXPECT_EQ(h.state(), State::kJoining);
  EXPECT_THAT(h.why(), testing::HasSubstr("refused"));
  Probe(1);
  EXPECT_EQ(h.state(), State::kUp);
  EXPECT_EQ(h.why(), "");
  EXPECT_EQ(h.probe_delay(), seconds(1));
}

TEST_F(HealthTest, AFailedConnectionPutsItOutAtOnceAndTheNextGoodProbeTriesIt) {
  Probe(0);
  h.OnConnectFailure(UnavailableError("refused"), At(100));
  EXPECT_EQ(h.state(), State::kEjected);
  EXPECT_EQ(h.ejection(), Ejection::kConnect);
  EXPECT_LE(h.probe_delay(), milliseconds(250));
  Probe(101);
  EXPECT_EQ(h.state(), State::kTrial);
  EXPECT_TRUE(h.usable());
  Say(Reply::kGood, static_cast<int>(Health::kTrialRequests), 110);
  EXPECT_EQ(h.state(), State::kUp);
}

TEST_F(HealthTest, OneThatCutRepliesAndIsDeadIsNotOutForItsReplies) {
  Probe(0);
  Say(Reply::kReset, 3, 10);
  EXPECT_TRUE(h.out_for_replies());
  h.OnConnectFailure(UnavailableError("refused"), At(100));
  EXPECT_EQ(h.state(), State::kEjected);
  EXPECT_FALSE(h.out_for_replies());
}

TEST_F(HealthTest, ATrialWithoutRequestsEndsByTime) {
  Probe(0);
  Probe(10, UnavailableError("x"));
  Probe(20);
  Probe(1020);
  EXPECT_EQ(h.state(), State::kTrial);
  Probe(2020);
  EXPECT_EQ(h.state(), State::kUp);
}

TEST_F(HealthTest, OneSlowProbeIsForgivenThreeAreNot) {
  Probe(0);
  for (const bool good : {false, false, true, false, false}) {
    Probe(1, good ? OkStatus() : DeadlineError("slow"));
    EXPECT_TRUE(h.usable());
  }
  Probe(2, DeadlineError("slow"));
  EXPECT_FALSE(h.usable());
  EXPECT_EQ(h.ejection(), Ejection::kHung);
}

TEST_F(HealthTest, ARunOfFailuresPutsItOutByTheirWeight) {
  const struct {
    Reply reply;
    int run;
    Ejection reason;
  } cases[] = {{Reply::kServerError, 6, Ejection::kServerError},
               {Reply::kReset, 3, Ejection::kReset},
               {Reply::kTimeout, 2, Ejection::kTimeout}};
  for (const auto& c : cases) {
    h = Health();
    Probe(0);
    for (int i = 0; i < 10; ++i) {
      Say(c.reply, c.run - 1);
      Say(Reply::kGood, 1);
    }
    EXPECT_TRUE(h.usable()) << "a good reply in between";
    Say(c.reply, c.run);
    EXPECT_FALSE(h.usable());
    EXPECT_EQ(h.ejection(), c.reason);
    EXPECT_THAT(h.why(), testing::HasSubstr("status 500"));
  }
}

// D31: what fails everywhere says nothing about one replica, but one that fails always is found.
TEST_F(HealthTest, TheMoreOfItsPeersRepliesFailTheLongerARunHasToBe) {
  const struct {
    double failing;
    int stays, out;
  } cases[] = {{0.05, 5, 6}, {0.2, 6, 20}, {0.5, 15, 30}, {0.9, 100, 200}, {1, 900, 0}};
  for (const auto& c : cases) {
    h = Health();
    peers.failing = c.failing;
    Probe(0);
    Say(Reply::kServerError, c.stays);
    EXPECT_TRUE(h.usable()) << c.failing;
    if (c.out > 0) Say(Reply::kServerError, c.out - c.stays);
    EXPECT_EQ(h.usable(), c.out == 0) << c.failing;
  }
  for (const Reply heavier : {Reply::kReset, Reply::kTimeout}) {
    h = Health();
    peers.failing = 0.5;
    Probe(0);
    Say(heavier, 19);
    EXPECT_TRUE(h.usable()) << "a heavier failure is no less probable";
    Say(heavier, 1);
    EXPECT_FALSE(h.usable());
  }
  h = Health();
  peers.failing = 0.5;
  Probe(0);
  h.OnConnectFailure(UnavailableError("refused"), At(1));
  Probe(2);
  ASSERT_EQ(h.state(), State::kTrial);
  Say(Reply::kServerError, 5, 3);
  EXPECT_TRUE(h.usable()) << "on trial too";
  Say(Reply::kServerError, 5, 3);
  EXPECT_FALSE(h.usable());
}

TEST_F(HealthTest, TheShareOfItsRepliesThatFailsFadesAndFewOnesSayLittle) {
  peers.can_spare = false;
  Probe(0);
  Say(Reply::kServerError, 1);
  EXPECT_NEAR(h.failing(At(0)), 1.0 / 3, 0.01);
  Say(Reply::kGood, 100);
  Say(Reply::kReset, 50);
  for (int i = 0; i < 49; ++i) h.OnExcusedReply(At(0));
  EXPECT_NEAR(h.failing(At(0)), 0.5, 0.02);
  EXPECT_NEAR(h.failing(At(120'000)), 0.5, 0.02) << "what comes now and then is seen, too";
  EXPECT_LT(h.failing(At(3'600'000)), 0.01);
  Say(Reply::kGood, 1000, 3'600'000);
  Say(Reply::kReset, 50, 3'700'000);
  EXPECT_GT(h.failing(At(3'700'000)), 0.9) << "and a burst at once";
}

TEST_F(HealthTest, WhatItsRepliesPutOutIsHeldLongerEachTime) {
  Probe(0);
  int now = 0;
  std::vector<int> holds;
  for (int i = 0; i < 8; ++i) {
    Say(Reply::kServerError, 6, now);  // on trial the first one is enough
    const int out = now;
    now = BackAt(now);
    holds.push_back(now - out);
    EXPECT_EQ(h.state(), State::kTrial);
  }
  EXPECT_EQ(holds, (std::vector<int>{1000, 2000, 4000, 8000, 16000, 30000, 30000, 30000}));
  Say(Reply::kGood, 4, now);
  now += 61'000;
  Say(Reply::kServerError, 6, now);
  EXPECT_EQ(BackAt(now) - now, 1000) << "a minute without fault clears its record";
}

// D19: a replica that hangs behind a good health page.
TEST_F(HealthTest, ClientsThatLeftInARowPutItOutUnlessItShowedLifeOrNobodyElseDid) {
  const auto leave = [&](int sent) { h.OnLeft(At(sent), peers, At(sent + 1000)); };
  peers.alive_at = At(500);
  Probe(0);
  for (const int sent : {100, 200, 900}) {
    EXPECT_TRUE(h.usable());
    leave(sent);
  }
  EXPECT_EQ(h.ejection(), Ejection::kTimeout);
  EXPECT_TRUE(h.out_for_replies());
  const auto stays = [&](const char* why, const std::function<void()>& before_the_third) {
    h = Health();
    peers = {.alive_at = At(500)};
    Probe(0);
    leave(100);
    leave(200);
    before_the_third();
    leave(300);
    EXPECT_TRUE(h.usable()) << why;
  };
  stays("it was computing when the last one came", [&] { h.OnSignOfLife(At(250)); });
  stays("and while that one waited", [&] { h.OnSignOfLife(At(350)); });
  stays("nobody is answered", [&] { peers.alive_at = At(99); });
  stays("nobody takes its place", [&] { peers.can_spare = false; });
}

TEST_F(HealthTest, OneThatGaveNoAnswersIsOnTrialUntilItComputesAndOutWithTheNextClient) {
  peers.alive_at = At(500);
  Probe(0);
  for (const int sent : {100, 200, 300}) h.OnLeft(At(sent), peers, At(1000));
  ASSERT_FALSE(h.usable());
  Probe(2000);
  ASSERT_EQ(h.state(), State::kTrial);
  Probe(9000);
  EXPECT_EQ(h.state(), State::kTrial) << "its probes were good before";
  peers.alive_at = At(9500);
  h.OnLeft(At(900), peers, At(9600));
  EXPECT_TRUE(h.usable()) << "that is old";
  h.OnLeft(At(9100), peers, At(9700));
  EXPECT_FALSE(h.usable());
  const int back = BackAt(9700);
  EXPECT_GE(back, 11'700) << "longer than before";
  h.OnSignOfLife(At(back + 10));
  Probe(back + 3000);
  EXPECT_EQ(h.state(), State::kUp);
}

TEST_F(HealthTest, OnTrialOneFailureIsEnough) {
  Probe(0);
  h.OnConnectFailure(UnavailableError("refused"), At(1));
  Probe(2);
  ASSERT_EQ(h.state(), State::kTrial);
  Say(Reply::kReset, 1, 3);
  EXPECT_FALSE(h.usable());
}

TEST_F(HealthTest, TheAgentsOwnReportCountsOnlyWhileItIsConnected) {
  Probe(0);
  h.OnAgentReport(false);
  EXPECT_FALSE(h.usable());
  EXPECT_NE(h.why(), "");
  EXPECT_EQ(h.ejection(), Ejection::kAgent);
  h.OnAgentLost();
  EXPECT_TRUE(h.usable());
}

// The log shall say what keeps a replica away, once.
TEST(JoinWatch, SaysWhyAReplicaIsNotUpAfterAWhileAndAgainWhenTheReasonChanges) {
  const TimePoint start = TimePoint() + seconds(100);
  Health health;
  JoinWatch watch(start);
  const auto at = [&](int s, const char* why) {
    health.OnProbe(UnavailableError(why), start + seconds(s));
    return watch.Due(health, start + seconds(s)).value_or("");
  };
  EXPECT_EQ(watch.Due(health, start + seconds(9)), std::nullopt) << "nothing is known yet";
  EXPECT_EQ(at(4, "refused"), "") << "it may just have been started";
  EXPECT_EQ(at(5, "refused"), "is not up after 5 s: probe: unavailable: refused");
  EXPECT_EQ(at(60, "refused"), "");
  EXPECT_EQ(at(61, "/health said 401"),
            "is not up after 61 s: probe: unavailable: /health said 401");
  EXPECT_EQ(at(62, "refused"), "") << "not with each probe";
  EXPECT_NE(at(92, "refused"), "");
  health.OnProbe(OkStatus(), start + seconds(200));
  EXPECT_EQ(watch.Due(health, start + seconds(200)), std::nullopt);
}

}  // namespace
}  // namespace ember::router
