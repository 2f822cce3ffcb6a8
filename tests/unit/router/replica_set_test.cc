#include <gtest/gtest.h>

#include <utility>

#include "router/fleet/replica_set.h"

namespace ember::router {
namespace {

TimePoint AtMs(int ms) { return TimePoint() + milliseconds(ms); }

// A set of r1, r2, ...
struct Set : ReplicaSet {
  explicit Set(int n) : ReplicaSet(HealthOptions()) {
    for (int i = 1; i <= n; ++i) EXPECT_TRUE(Add({.id = "r" + std::to_string(i)}).ok());
  }
  void Probe(ReplicaNumber n, const Status& status = OkStatus(), TimePoint now = AtMs(0)) {
    ApplyProbe(*at(n).endpoint, status, now);
  }
  std::string_view State(ReplicaNumber n) const { return at(n).endpoint->state(); }
};

AgentReport Report(uint32_t running, uint64_t pending = 0, bool healthy = true) {
  return {.healthy = healthy,
          .load = {.slots_total = 2, .running = running, .pending_prefill_tokens = pending}};
}

TEST(ReplicaSet, OwnRequestsCountOnceUntilAndAfterAReportContainsThem) {
  Set set(2);
  auto a = set.Start(0, 100, 0, AtMs(0));
  auto b = set.Start(0, 50, 0, AtMs(95));
  EXPECT_EQ(set.at(0).view.in_flight, 2u);
  EXPECT_EQ(set.at(1).view.in_flight, 0u);
  set.ApplyReport(0, Report(1, 80), AtMs(100));  // can contain a, not b
  EXPECT_EQ(set.at(0).view.load.running, 1u);
  EXPECT_EQ(set.at(0).view.in_flight, 1u);
  a = {};
  EXPECT_EQ(set.at(0).view.load.running, 0u) << "the report is older than the request's end";
  EXPECT_EQ(set.at(0).view.in_flight, 1u);
  set.ApplyReport(0, Report(1), AtMs(200));
  EXPECT_EQ(set.at(0).view.in_flight, 0u);
  EXPECT_EQ(set.at(0).under_way(), 1u);
  b = {};
  EXPECT_EQ(set.at(0).under_way(), 0u);
  EXPECT_EQ(set.at(0).totals.requests, 2u);
}

TEST(ReplicaSet, PrefillIsNoLongerAheadOfOthersOnceTheFirstTokenCame) {
  Set set(1);
  auto a = set.Start(0, 100, 500, AtMs(0));
  EXPECT_EQ(set.at(0).estimate.BacklogMs(AtMs(0)), 500);
  a.PrefillDone(ReplicaSet::Answer::kStream, AtMs(20));
  a.PrefillDone(ReplicaSet::Answer::kStream, AtMs(20));
  EXPECT_EQ(set.at(0).estimate.BacklogMs(AtMs(20)), 0);
  EXPECT_EQ(set.at(0).view.in_flight, 1u);
}

TEST(ReplicaSet, WhatAnAgentReportsAsPendingIsOthersOnlyAsFarAsItIsNotOurs) {
  Set set(1);
  const auto backlog_ms = [&](int ms) { return set.at(0).estimate.BacklogMs(AtMs(ms)); };
  // Of 1000 tokens we know that 900 are cached there; its agent does not, as long as they wait.
  auto a = set.Start(0, 100, 500, AtMs(0));
  set.ApplyReport(0, Report(1, 1000), AtMs(100));
  EXPECT_EQ(backlog_ms(100), 400) << "ours is being served";
  set.ApplyReport(0, Report(2, 1100), AtMs(100));
  EXPECT_EQ(backlog_ms(100), 400 + 550 * 5) << "half of them are another's";
  EXPECT_NEAR(backlog_ms(200), 300 + 550 * 5 - 100, 5) << "it is served meanwhile";
  a.PrefillDone(ReplicaSet::Answer::kStream, AtMs(500));
  set.ApplyReport(0, Report(3, 300), AtMs(500));
  EXPECT_EQ(backlog_ms(500), 200 * 5);
  set.ApplyLost(0);
  EXPECT_EQ(backlog_ms(500), 0);
}

TEST(ReplicaSet, WhenTheAgentIsLostAllOfOursCountAgain) {
  Set set(1);
  set.Probe(0);
  auto a = set.Start(0, 100, 0, AtMs(0));
  set.ApplySnapshot(0, {.replica_id = "r1", .report = Report(3, 70), .model = "m"}, AtMs(100));
  EXPECT_EQ(set.at(0).view.in_flight, 0u);
  EXPECT_EQ(set.at(0).endpoint->model, "m");
  EXPECT_TRUE(set.at(0).endpoint->agent_connected);
  set.ApplyLost(0);
  EXPECT_EQ(set.at(0).view.load.running, 0u);
  EXPECT_EQ(set.at(0).view.in_flight, 1u);
  EXPECT_TRUE(set.at(0).view.healthy) << "the probe still says so";
}

TEST(ReplicaSet, FlightsMoveAndEndOnce) {
  Set set(1);
  {
    auto a = set.Start(0, 1, 0, AtMs(0));
    ReplicaSet::Flight b = std::move(a);
    ReplicaSet::Flight c = set.Start(0, 1, 0, AtMs(1));
    c = std::move(b);
    EXPECT_EQ(set.at(0).under_way(), 1u);
  }
  EXPECT_EQ(set.at(0).under_way(), 0u);
  EXPECT_EQ(set.at(0).view.in_flight, 0u);
}

TEST(ReplicaSet, HealthDecidesWhoIsUsable) {
  Set set(2);
  EXPECT_EQ(set.usable_count(), 0u);
  set.Probe(1);
  EXPECT_EQ(set.usable_count(), 1u);
  set.ApplyReport(1, Report(0, 0, false), AtMs(1));
  EXPECT_EQ(set.usable_count(), 0u);
  EXPECT_EQ(set.State(1), "ejected");
  set.ApplyLost(1);
  EXPECT_EQ(set.State(1), "up") << "its probe still says so";
  EXPECT_EQ(set.Find("r2")->members, std::vector<ReplicaNumber>{1});
  EXPECT_EQ(set.Find("r3"), nullptr);
}

// Writes down what it is told.
class Diary final : public ReplicaListener {
 public:
  void OnAdded(const Endpoint& e) override { Note("added", e); }
  void OnStateChanged(const Endpoint& e) override { Note(e.state(), e); }
  void OnReadmitted(const Endpoint& e) override { Note("readmitted", e); }
  void OnRemoved(const Endpoint& e) override { Note("removed", e); }
  void OnDoubted(const Endpoint& e) override { Note("doubted", e); }
  void OnFoundDead(const Endpoint& e) override { Note("dead", e); }
  void OnGone(const Endpoint& e) override { Note("freed", e); }
  std::vector<std::string> Take() { return std::exchange(notes_, {}); }

 private:
  void Note(std::string_view what, const Endpoint& e) {
    notes_.push_back(e.config.id + " " + std::string(what));
  }
  std::vector<std::string> notes_;
};

using Notes = std::vector<std::string>;

TEST(ReplicaSet, OneThatIsDoubtedIsFoundDeadOnceButNotWhenItIsSlow) {
  Set set(1);
  set.Probe(0);
  Diary diary;
  set.AddListener(&diary);
  const Status refused = UnavailableError("connect to r1: refused");
  set.Doubt(0, seconds(5), AtMs(0));
  set.Doubt(0, seconds(5), AtMs(1000));
  EXPECT_EQ(diary.Take(), Notes{"r1 doubted"});
  set.Probe(0, DeadlineError("no answer"), AtMs(1001));
  set.Probe(0, OkStatus(), AtMs(1002));
  EXPECT_EQ(diary.Take(), Notes());
  set.Probe(0, refused, AtMs(5999));
  set.Probe(0, refused, AtMs(5999));
  EXPECT_EQ(diary.Take(), (Notes{"r1 ejected", "r1 dead"}));
  set.Doubt(0, seconds(5), AtMs(6000));
  set.ApplyConnectFailure(0, refused, AtMs(6001));
  EXPECT_EQ(diary.Take(), (Notes{"r1 doubted", "r1 dead"}));
  set.Doubt(0, seconds(5), AtMs(7000));
  set.Probe(0, refused, AtMs(12000));
  EXPECT_EQ(diary.Take(), Notes{"r1 doubted"}) << "the doubt is over";
}

TEST(ReplicaSet, MembersComeDrainAndGoAndListenersAreTold) {
  Set set(1);
  Diary diary;
  set.AddListener(&diary);
  EXPECT_FALSE(set.Add({.id = "r1"}).ok()) << "ids are distinct";
  ASSERT_TRUE(set.Add({.id = "r2"}).ok());
  set.Probe(1);
  EXPECT_EQ(diary.Take(), (Notes{"r2 added", "r2 up"}));
  ASSERT_TRUE(set.Drain("r2").ok());
  EXPECT_FALSE(set.at(1).has_room());
  set.Probe(1, UnavailableError("x"));
  set.Probe(1);
  EXPECT_EQ(set.State(1), "draining") << "drained is drained, whatever its probes say";
  EXPECT_EQ(diary.Take(), (Notes{"r2 draining", "r2 readmitted"}));
  EXPECT_EQ(set.size(), 2u);
  ASSERT_TRUE(set.Remove("r2").ok());
  EXPECT_EQ(diary.Take(), (Notes{"r2 gone", "r2 removed", "r2 freed"}));
  EXPECT_EQ(set.numbers(), std::vector<ReplicaNumber>{0});
  EXPECT_EQ(set.Remove("r2").code(), StatusCode::kNotFound);
  EXPECT_EQ(set.Drain("r2").code(), StatusCode::kNotFound);
}

TEST(ReplicaSet, WhatHappensToADrainingReplicaIsNotForgottenWhenItIsResumed) {
  Set set(2);
  set.Probe(0);
  set.Probe(1);
  Diary diary;
  set.AddListener(&diary);
  const Endpoint& endpoint = *set.at(1).endpoint;
  const auto given_up = endpoint.given_up;
  const auto ejections = [&](Ejection e) { return endpoint.ejections[static_cast<size_t>(e)]; };
  ASSERT_TRUE(set.Drain("r2").ok());
  for (int i = 0; i < 3; ++i) set.Probe(1, DeadlineError("slow"));
  EXPECT_TRUE(given_up->cancelled()) << "its requests hang";
  set.Probe(1);
  EXPECT_FALSE(set.at(1).view.healthy);
  ASSERT_TRUE(set.Resume("r2").ok());
  EXPECT_TRUE(set.at(1).view.healthy);
  EXPECT_EQ(diary.Take(), (Notes{"r2 draining", "r2 readmitted", "r2 trial"}))
      << "it may be another process";
  set.Probe(1, UnavailableError("x"));
  ASSERT_TRUE(set.Drain("r2").ok());
  ASSERT_TRUE(set.Resume("r2").ok());
  EXPECT_EQ(set.State(1), "ejected");
  EXPECT_EQ(ejections(Ejection::kHung), 1u);
  EXPECT_EQ(ejections(Ejection::kProbe), 1u) << "once, not again for the resume";
}

TEST(ReplicaSet, ANumberIsNotGivenAgainBeforeItsLastRequestEnded) {
  Set set(2);
  Diary diary;
  set.AddListener(&diary);
  auto flight = set.Start(0, 10, 0, AtMs(0));
  const std::shared_ptr<Endpoint> old = set.at(0).endpoint;
  ASSERT_TRUE(set.Remove("r1").ok());
  EXPECT_EQ(diary.Take(), (Notes{"r1 gone", "r1 removed"}));
  ASSERT_TRUE(set.Add({.id = "r1"}).ok()) << "the id is free at once";
  EXPECT_EQ(set.Find("r1")->members, std::vector<ReplicaNumber>{2});
  flight.PrefillDone(ReplicaSet::Answer::kStream, AtMs(20));
  flight = {};
  EXPECT_EQ(diary.Take(), (Notes{"r1 added", "r1 freed"}));
  ASSERT_TRUE(set.Add({.id = "r3"}).ok());
  EXPECT_EQ(set.Find("r3")->members, std::vector<ReplicaNumber>{0});
  set.ApplyProbe(*old, OkStatus(), AtMs(1));  // a probe that was under way when it went
  EXPECT_FALSE(set.at(0).view.healthy);
}

TEST(ReplicaSet, RanksAreMembersOfOneReplica) {
  ReplicaSet set{HealthOptions()};
  ASSERT_TRUE(set.Add({.id = "a", .ranks = 2, .first_rank = 4, .max_concurrency = 3}).ok());
  ASSERT_TRUE(set.Add({.id = "b"}).ok());
  ASSERT_EQ(set.size(), 3u);
  EXPECT_EQ(set.at(0).view.rank, 4u);
  EXPECT_EQ(set.at(1).view.rank, 5u);
  EXPECT_EQ(set.at(2).view.rank, std::nullopt);
  set.ApplyProbe(*set.at(1).endpoint, OkStatus(), AtMs(0));
  EXPECT_EQ(set.usable_count(), 2u) << "one server, one health";
  std::vector<ReplicaSet::Flight> flights;
  for (const ReplicaNumber n : {0u, 0u, 1u}) {
    EXPECT_TRUE(set.at(1).has_room());
    flights.push_back(set.Start(n, 0, 0, AtMs(0)));
  }
  EXPECT_EQ(set.at(0).view.in_flight, 2u);
  EXPECT_FALSE(set.at(0).has_room()) << "the limit is the server's";
  EXPECT_FALSE(set.at(1).has_room());
  flights.pop_back();
  EXPECT_TRUE(set.at(1).has_room());
  ASSERT_TRUE(set.Remove("a").ok());
  EXPECT_EQ(set.numbers(), std::vector<ReplicaNumber>{2});
}

TEST(ReplicaSet, OnTrialItGetsFewRequestsAtOnceAndItsReturnIsTold) {
  Set set(2);
  set.Probe(0);
  set.Probe(1);
  Diary diary;
  set.AddListener(&diary);
  int rooms = 0;
  set.SetOnRoom([&] { ++rooms; });
  set.ApplyConnectFailure(0, UnavailableError("refused"), AtMs(10));
  EXPECT_EQ(rooms, 1) << "who waits for it waits in vain";
  set.Probe(0, OkStatus(), AtMs(20));
  EXPECT_EQ(diary.Take(), (Notes{"r1 ejected", "r1 readmitted", "r1 trial"}));
  EXPECT_EQ(rooms, 2) << "who waits may look again";
  std::vector<ReplicaSet::Flight> flights;
  while (set.at(0).has_room()) flights.push_back(set.Start(0, 0, 0, AtMs(20)));
  EXPECT_EQ(flights.size(), Health::kTrialRequests);
  for (auto& f : flights) {
    set.ApplyReply(0, Health::Reply::kGood, "", AtMs(30));
    f = {};
  }
  EXPECT_EQ(diary.Take(), Notes{"r1 up"});
}

TEST(ReplicaSet, TheLastUsableReplicaIsNotPutOutByWhatItSays) {
  Set set(2);
  set.Probe(0);
  set.Probe(1);
  for (const ReplicaNumber n : {0u, 1u}) {
    for (int i = 0; i < 20; ++i) set.ApplyReply(n, Health::Reply::kServerError, "500", AtMs(1));
  }
  EXPECT_EQ(set.State(0), "ejected");
  EXPECT_EQ(set.State(1), "up") << "its errors are better answers than ours";
}

// D31, P6.
TEST(ReplicaSet, AtMostHalfOfThemAreOutForTheirRepliesAtOnce) {
  Set set(5);
  for (const ReplicaNumber n : {0u, 1u, 2u, 3u, 4u}) set.Probe(n);
  set.ApplyConnectFailure(4, UnavailableError("refused"), AtMs(1));  // not by its replies
  for (const ReplicaNumber n : {0u, 1u, 2u, 3u}) {
    for (int i = 0; i < 900; ++i) set.ApplyReply(n, Health::Reply::kReset, "reset", AtMs(1));
  }
  EXPECT_EQ(set.State(0), "ejected");
  EXPECT_EQ(set.State(1), "ejected");
  EXPECT_EQ(set.State(2), "up");
  EXPECT_EQ(set.State(3), "up");
}

TEST(ReplicaSet, WhatAllOfThemFailAtPutsNoneOfThemOut) {
  Set set(4);
  for (const ReplicaNumber n : {0u, 1u, 2u, 3u}) set.Probe(n);
  for (int i = 0; i < 100; ++i) {
    for (const ReplicaNumber n : {0u, 1u, 2u, 3u}) {
      set.ApplyReply(n, Health::Reply::kServerError, "500", AtMs(i));
    }
  }
  EXPECT_EQ(set.usable_count(), 4u);
}

TEST(ReplicaSet, HasRoomForManyAndSaysWhenItHasNone) {
  Set set(static_cast<int>(kMaxReplicas) - 3);
  EXPECT_EQ(set.Add({.id = "ranks", .ranks = 4}).code(), StatusCode::kNoSpace);
  EXPECT_TRUE(set.Add({.id = "fewer", .ranks = 3}).ok()) << "half of the ranks are never taken";
  EXPECT_EQ(set.Add({.id = "one"}).code(), StatusCode::kNoSpace);
  EXPECT_EQ(set.size(), kMaxReplicas);
}

TEST(ReplicaSet, ComingAndGoingLeavesNothingBehind) {
  Set set(1);
  for (int i = 0; i < 1000; ++i) {
    ASSERT_TRUE(set.Add({.id = "x", .models = {"m"}, .ranks = 8}).ok());
    ASSERT_TRUE(set.models().Lists("m"));
    auto flight = set.Start(set.Find("x")->members[i % 8], 0, 0, AtMs(i));
    ASSERT_TRUE(set.Remove("x").ok());
    ASSERT_FALSE(set.models().Lists("m"));
  }
  ASSERT_TRUE(set.Add({.id = "y"}).ok());
  EXPECT_EQ(set.Find("y")->members, std::vector<ReplicaNumber>{1});
}

TEST(ReplicaSet, StreamsTeachThePrefillAndWholeRepliesABound) {
  ReplicaSet set{HealthOptions{}};
  ASSERT_TRUE(set.Add(*ReplicaConfig::Parse("x,http=127.0.0.1:1")).ok());
  using Answer = ReplicaSet::Answer;
  const auto reply = [&](Answer answer, int at, int took) {
    auto flight = set.Start(0, 1000, 300, AtMs(at));
    set.Describe(0, AtMs(at));
    EXPECT_EQ(set.at(0).view.backlog_ms, 300);
    flight.PrefillDone(answer, AtMs(at + took));
    flight.Learn({.prompt = 1000}, AtMs(at + took));
    set.Describe(0, AtMs(at + took));
    EXPECT_EQ(set.at(0).view.backlog_ms, 0);
  };
  for (int i = 0; i < 8; ++i) reply(Answer::kNone, 1000 * i, 10);
  EXPECT_EQ(set.at(0).view.prefill_basis, PrefillBasis::kNone);
  for (int i = 0; i < 8; ++i) reply(Answer::kWhole, 1000 * i, 900);
  EXPECT_EQ(set.at(0).view.prefill_basis, PrefillBasis::kLittle);
  EXPECT_NEAR(set.at(0).view.prefill.PredictMs(1000, 0), 900, 10);
  EXPECT_NEAR(set.at(0).view.typical_prefill_ms, 900, 10);
  for (int i = 0; i < 8; ++i) reply(Answer::kWhole, 1000 * i, 5000);  // long answers tell nothing
  EXPECT_NEAR(set.at(0).view.prefill.PredictMs(1000, 0), 900, 10);
  for (int i = 0; i < 32; ++i) reply(Answer::kStream, 1000 * i, 100);
  EXPECT_EQ(set.at(0).view.prefill_basis, PrefillBasis::kEnough);
  EXPECT_NEAR(set.at(0).view.prefill.PredictMs(1000, 0), 100, 1);
  // The agent's own fit wins, until the agent is lost; the default is none.
  AgentReport report{.healthy = true};
  set.ApplyReport(0, report, AtMs(9000));
  set.Describe(0, AtMs(9000));
  EXPECT_NEAR(set.at(0).view.prefill.PredictMs(1000, 0), 100, 1);
  report.prefill.linear_ms = 7;
  set.ApplyReport(0, report, AtMs(9000));
  set.Describe(0, AtMs(9000));
  EXPECT_EQ(set.at(0).view.prefill.linear_ms, 7);
  set.ApplyLost(0);
  set.Describe(0, AtMs(9000));
  EXPECT_NEAR(set.at(0).view.prefill.PredictMs(1000, 0), 100, 1);
}

}  // namespace
}  // namespace ember::router
