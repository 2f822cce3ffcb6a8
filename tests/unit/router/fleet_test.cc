#include <gtest/gtest.h>

#include "router/fleet/replica_set.h"

namespace ember::router {
namespace {

TimePoint At(int ms) { return TimePoint() + milliseconds(ms); }

std::vector<ReplicaConfig> Configs(int n) {
  std::vector<ReplicaConfig> out;
  for (int i = 1; i <= n; ++i)
    out.push_back({.id = "r" + std::to_string(i), .http = {}, .grpc = ""});
  return out;
}

AgentReport Report(uint32_t running, uint64_t pending = 0, bool healthy = true) {
  return {.healthy = healthy,
          .load = {.slots_total = 2, .running = running, .pending_prefill_tokens = pending}};
}

TEST(ReplicaConfig, ParsesWhatTheHelpSays) {
  const auto config = ReplicaConfig::Parse("r-1.a_B,http=127.0.0.1:9001,grpc=[::1]:9002");
  ASSERT_TRUE(config.ok()) << config.status().ToString();
  EXPECT_EQ(config->id, "r-1.a_B");
  EXPECT_EQ(config->http.ToString(), "127.0.0.1:9001");
  EXPECT_EQ(config->grpc, "[::1]:9002");
  EXPECT_TRUE(ReplicaConfig::Parse("a,http=host:1").ok());
}

TEST(ReplicaConfig, RefusesEverythingElse) {
  for (const char* text : {"", ",", "r1", "r1,", "r 1,http=a:1", "r1,http=", "r1,http=a",
                           "r1,http=a:0", "r1,http=a:70000", "r1,grpc=a:1", "r1,http=a:1,tcp=b:2",
                           "r1,http=a:1,x", "http=a:1", "r1,http=a:1,grpc=:3"}) {
    EXPECT_FALSE(ReplicaConfig::Parse(text).ok()) << text;
  }
}

TEST(Health, StartsUnusableAndComesBackWithTheFirstGoodProbe) {
  Health h;
  EXPECT_FALSE(h.usable());
  h.OnProbe(OkStatus());
  EXPECT_TRUE(h.usable());
  EXPECT_EQ(h.why(), "");
  h.OnConnectFailure(UnavailableError("refused"));
  EXPECT_FALSE(h.usable());
  EXPECT_LE(h.probe_delay(), milliseconds(250));
  h.OnProbe(OkStatus());
  EXPECT_TRUE(h.usable());
}

TEST(Health, OneSlowProbeIsForgivenThreeAreNot) {
  Health h;
  h.OnProbe(OkStatus());
  h.OnProbe(DeadlineError("slow"));
  h.OnProbe(DeadlineError("slow"));
  EXPECT_TRUE(h.usable());
  h.OnProbe(OkStatus());
  h.OnProbe(DeadlineError("slow"));
  h.OnProbe(DeadlineError("slow"));
  EXPECT_TRUE(h.usable());
  h.OnProbe(DeadlineError("slow"));
  EXPECT_FALSE(h.usable());
}

TEST(Health, TheAgentsOwnReportCountsOnlyWhileItIsConnected) {
  Health h;
  h.OnProbe(OkStatus());
  h.OnAgentReport(false);
  EXPECT_FALSE(h.usable());
  EXPECT_NE(h.why(), "");
  h.OnAgentLost();
  EXPECT_TRUE(h.usable());
}

TEST(ReplicaSet, OwnRequestsCountOnceUntilAndAfterAReportContainsThem) {
  ReplicaSet set(Configs(2));
  auto a = set.Start(0, 100, At(0));
  auto b = set.Start(0, 50, At(95));
  EXPECT_EQ(set.at(0).view.in_flight, 2u);
  EXPECT_EQ(set.at(0).view.in_flight_prefill_tokens, 150u);
  EXPECT_EQ(set.at(1).view.in_flight, 0u);
  set.ApplyReport(0, Report(1, 80), At(100));  // can contain a, not b
  EXPECT_EQ(set.at(0).view.load.running, 1u);
  EXPECT_EQ(set.at(0).view.in_flight, 1u);
  EXPECT_EQ(set.at(0).view.in_flight_prefill_tokens, 50u);
  a = {};
  EXPECT_EQ(set.at(0).view.load.running, 0u) << "the report is older than the request's end";
  EXPECT_EQ(set.at(0).view.in_flight, 1u);
  set.ApplyReport(0, Report(1), At(200));
  EXPECT_EQ(set.at(0).view.in_flight, 0u);
  EXPECT_EQ(set.at(0).under_way(), 1u);
  b = {};
  EXPECT_EQ(set.at(0).under_way(), 0u);
  EXPECT_EQ(set.at(0).totals.requests, 2u);
}

TEST(ReplicaSet, PrefillIsNoLongerAheadOfOthersOnceTheFirstTokenCame) {
  ReplicaSet set(Configs(1));
  auto a = set.Start(0, 100, At(0));
  a.PrefillDone();
  a.PrefillDone();
  EXPECT_EQ(set.at(0).view.in_flight_prefill_tokens, 0u);
  EXPECT_EQ(set.at(0).view.in_flight, 1u);
}

TEST(ReplicaSet, WhenTheAgentIsLostAllOfOursCountAgain) {
  ReplicaSet set(Configs(1));
  set.at(0).health.OnProbe(OkStatus());
  auto a = set.Start(0, 100, At(0));
  set.ApplySnapshot(0, {.replica_id = "r1", .report = Report(3, 70), .model = "m"}, At(100));
  EXPECT_EQ(set.at(0).view.in_flight, 0u);
  EXPECT_EQ(set.at(0).model, "m");
  EXPECT_TRUE(set.at(0).agent_connected);
  set.ApplyLost(0);
  EXPECT_EQ(set.at(0).view.load.running, 0u);
  EXPECT_EQ(set.at(0).view.in_flight, 1u);
  EXPECT_EQ(set.at(0).view.in_flight_prefill_tokens, 100u);
  EXPECT_TRUE(set.at(0).view.healthy) << "the probe still says so";
}

TEST(ReplicaSet, FlightsMoveAndEndOnce) {
  ReplicaSet set(Configs(1));
  {
    auto a = set.Start(0, 1, At(0));
    ReplicaSet::Flight b = std::move(a);
    ReplicaSet::Flight c = set.Start(0, 1, At(1));
    c = std::move(b);
    EXPECT_EQ(set.at(0).under_way(), 1u);
  }
  EXPECT_EQ(set.at(0).under_way(), 0u);
  EXPECT_EQ(set.at(0).view.in_flight, 0u);
}

TEST(ReplicaSet, HealthDecidesWhoIsUsable) {
  ReplicaSet set(Configs(2));
  EXPECT_EQ(set.usable_count(), 0u);
  set.at(1).health.OnProbe(OkStatus());
  set.RefreshHealth(1);
  EXPECT_EQ(set.usable_count(), 1u);
  set.ApplyReport(1, Report(0, 0, false), At(1));
  EXPECT_EQ(set.usable_count(), 0u);
  EXPECT_EQ(set.Find("r2"), &set.at(1));
  EXPECT_EQ(set.NumberOf(*set.Find("r2")), 1u);
  EXPECT_EQ(set.Find("r3"), nullptr);
}

}  // namespace
}  // namespace ember::router
