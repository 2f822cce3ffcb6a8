#include "router/policy/cost_model.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "proto/base/random.h"
#include "router/policy/registry.h"
#include "tests/unit/router/policy_fixture.h"

namespace ember::router {
namespace {

CandidateCost CostAt(PolicyFixture& f, size_t i, const PolicyInput& input) {
  return CostModel(input).Of(f.at(i));
}

TEST(CostModel, ASlowerTierScoresLessThanMemoryAndMoreThanNothing) {
  // A13.
  PolicyFixture f;
  for (const char* id : {"memory", "host", "nothing"}) f.Add(id).copy_tokens_per_ms = 10;
  f.at(0).match.device_tokens = 960;
  f.at(1).match.any_tier_tokens = 960;
  const PolicyInput input = f.Prompt(1000);
  EXPECT_DOUBLE_EQ(CostAt(f, 0, input).ttft_ms, 200);
  EXPECT_DOUBLE_EQ(CostAt(f, 1, input).ttft_ms, 200 + 96);
  EXPECT_DOUBLE_EQ(CostAt(f, 2, input).ttft_ms, 5000);
  EXPECT_EQ(CostAt(f, 1, input).local_tokens, 960u);
  EXPECT_EQ(CostAt(f, 1, input).remote_tokens, 0u);
  EXPECT_EQ(FindPolicy("cache_aware")->Decide(input).replica, "memory");
}

TEST(CostModel, ATierThatIsSlowerThanComputingIsNotUsedAndTheStoreGoesOnWhereTheTierEnds) {
  PolicyFixture f;
  Replica& r = f.Add("r");
  f.at(0).match = {.device_tokens = 320, .any_tier_tokens = 640};
  r.copy_tokens_per_ms = 0.1;
  EXPECT_EQ(CostAt(f, 0, f.Prompt(1000)).local_tokens, 320u);
  r.copy_tokens_per_ms = 40;
  r.load_tokens_per_ms = 10;
  const CandidateCost c = CostAt(f, 0, f.Prompt(1000, 960));
  EXPECT_EQ(c.local_tokens, 640u);
  EXPECT_EQ(c.remote_tokens, 320u);
  EXPECT_DOUBLE_EQ(c.load_ms, 8 + 32);
}

TEST(CostModel, ALoadIsChargedForItsTailButPredictedWithoutIt) {
  PolicyFixture f;
  Replica& r = f.Add("r");
  r.load_tokens_per_ms = 10;
  r.load_tail_tokens_per_ms = 2;
  const CandidateCost c = CostAt(f, 0, f.Prompt(1000, 960));
  EXPECT_DOUBLE_EQ(c.load_ms, 96);
  EXPECT_DOUBLE_EQ(c.tail_ms, (480 - 96) / 2.0);
  EXPECT_DOUBLE_EQ(c.ttft_ms, 96 + 200);
  EXPECT_DOUBLE_EQ(c.total_ms, c.ttft_ms + c.tail_ms);
  r.load_tail_tokens_per_ms = 0.05;  // its risk is worse than computing
  EXPECT_EQ(CostAt(f, 0, f.Prompt(1000, 960)).remote_tokens, 0u);
}

TEST(CostModel, AMatchIsCorrectedByWhatMatchesUsuallyMiss) {
  PolicyFixture f;
  Replica& r = f.Add("r");
  r.cache.beyond_tokens = 50;
  EXPECT_EQ(CostAt(f, 0, f.Prompt(1000)).local_tokens, 0u);
  f.at(0).match.device_tokens = 448;
  EXPECT_EQ(CostAt(f, 0, f.Prompt(1000)).local_tokens, 498u);
  EXPECT_EQ(CostAt(f, 0, f.Prompt(460)).local_tokens, 459u);
}

TEST(CostModel, WhatWaitsLongIsPartlyEvictedUntilThen) {
  PolicyFixture f;
  Replica& r = f.Add("r");
  r.cache = {.capacity_tokens = 10000, .churn_tokens_per_ms = 0.5};
  f.at(0).match.device_tokens = 960;
  r.backlog_ms = 4000;
  EXPECT_EQ(CostAt(f, 0, f.Prompt(1000)).local_tokens, 768u);  // 2000 of 10000 tokens pass
  r.backlog_ms = 1e9;
  EXPECT_EQ(CostAt(f, 0, f.Prompt(1000)).local_tokens, 720u);  // never all of it
  r.backlog_ms = 0;
  EXPECT_EQ(CostAt(f, 0, f.Prompt(1000)).local_tokens, 960u);
}

TEST(CostModel, AFullCacheCostsByItsChurnAndAnEmptyOneNothing) {
  PolicyFixture f;
  for (const char* id : {"empty", "full", "churning"}) {
    f.Add(id).cache = {
        .capacity_tokens = 10000, .held_tokens = 10000, .churn_tokens_per_ms = 0.1, .reuse = 0.8};
  }
  const_cast<Replica*>(f.at(0).replica)->cache.held_tokens = 1000;
  const_cast<Replica*>(f.at(2).replica)->cache.churn_tokens_per_ms = 0.13;
  const PolicyInput input = f.Prompt(1000);
  EXPECT_EQ(CostAt(f, 0, input).displacement_ms, 0);
  EXPECT_NEAR(CostAt(f, 1, input).displacement_ms, 1000 * 0.25 * 0.8 * 5 * std::pow(0.1 / 0.11, 4),
              1);
  EXPECT_GT(CostAt(f, 2, input).displacement_ms, 2 * CostAt(f, 1, input).displacement_ms);
  EXPECT_EQ(CostAt(f, 1, input).ttft_ms, 5000);
  EXPECT_EQ(FindPolicy("cache_aware")->Decide(input).replica, "empty");
}

TEST(CostModel, WhatRunningRequestsHoldIsNoRoom) {
  PolicyFixture f;
  Replica& r = f.Add("r");
  r.cache = {.capacity_tokens = 10000, .held_tokens = 5000, .reuse = 1};
  EXPECT_EQ(CostAt(f, 0, f.Prompt(1000)).displacement_ms, 0);
  r.load.kv_usage = 0.6;
  EXPECT_GT(CostAt(f, 0, f.Prompt(1000)).displacement_ms, 0);
}

TEST(CostModel, MovingAConversationOutOfTheOnlyCacheThatHasItCosts) {
  PolicyFixture f;
  for (const char* id : {"home", "other", "third"}) {
    f.Add(id).cache = {.capacity_tokens = 10000, .held_tokens = 10000, .reuse = 0.5};
  }
  for (size_t i = 0; i < 3; ++i) f.at(i).match.device_tokens = 320;
  const double shared_only = CostAt(f, 1, f.Prompt(1000)).displacement_ms;
  f.at(0).match.device_tokens = 960;
  EXPECT_DOUBLE_EQ(CostAt(f, 1, f.Prompt(1000)).displacement_ms, shared_only + 640 * 0.5 * 5);
}

TEST(CostModel, AnIdleEmptyReplicaIsWarmedWithWhatOthersShare) {
  // A replica that joins or comes back empty gets its share, though every prompt has a warm place.
  PolicyFixture f;
  for (const char* id : {"warm1", "warm2", "new"}) f.Add(id);
  f.at(0).match.device_tokens = f.at(1).match.device_tokens = 512;
  const PolicyInput input = f.Prompt(1000);
  EXPECT_DOUBLE_EQ(CostAt(f, 2, input).exploration_ms, 512 * 5);
  EXPECT_DOUBLE_EQ(CostAt(f, 2, input).total_ms, CostAt(f, 0, input).total_ms);
  EXPECT_EQ(CostAt(f, 2, input).ttft_ms, 5000);
  // Not with what a single one holds, of which no others are known: that is one conversation, and
  // at home there.
  f.at(1).match.device_tokens = 0;
  EXPECT_EQ(CostAt(f, 2, input).exploration_ms, 0);
  // Nor while it is busy.
  f.at(1).match.device_tokens = 512;
  const_cast<Replica*>(f.at(2).replica)->backlog_ms = 1;
  EXPECT_EQ(CostAt(f, 2, input).exploration_ms, 0);
}

TEST(CostModel, AReplicaEmptierThanOthersIsWarmedWithWhatBranchesInAnyOfThem) {
  PolicyFixture f;
  for (const char* id : {"warm1", "warm2", "warm3", "back"}) {
    f.Add(id).cache = {.capacity_tokens = 10000, .held_tokens = 10000};
  }
  auto* back = const_cast<Replica*>(f.at(3).replica);
  back->cache.held_tokens = 0;
  f.at(0).match.device_tokens = 512;
  PolicyInput input = f.Prompt(1000);
  EXPECT_EQ(CostAt(f, 3, input).exploration_ms, 0);
  input.branch_tokens = 512;
  EXPECT_DOUBLE_EQ(CostAt(f, 3, input).exploration_ms, 0.75 * 512 * 5) << "free: 1, on average 1/4";
  back->cache.held_tokens = 6000;
  EXPECT_DOUBLE_EQ(CostAt(f, 3, input).exploration_ms, 0.3 * 512 * 5);
  // A fleet that is empty together does not copy everything everywhere.
  for (size_t i = 0; i < 4; ++i) const_cast<Replica*>(f.at(i).replica)->cache.held_tokens = 0;
  EXPECT_EQ(CostAt(f, 3, input).exploration_ms, 0);
}

TEST(CostModel, AReplicaOfUnknownSpeedIsTakenForATypicalOneAndTriedUntilItIsKnown) {
  PolicyFixture f;
  for (const char* id : {"r1", "r2", "r3"}) f.Add(id);
  auto* r3 = const_cast<Replica*>(f.at(2).replica);
  r3->prefill_basis = PrefillBasis::kLittle;
  r3->prefill.linear_ms = 100;
  const PolicyInput input = f.Prompt(1000);
  EXPECT_EQ(CostAt(f, 2, input).ttft_ms, 5000);
  EXPECT_EQ(FindPolicy("cache_aware")->Decide(input).replica, "r3");
  // Bounded by its own queue: one that never answers is not sent everything.
  r3->backlog_ms = 5000;
  EXPECT_NE(FindPolicy("cache_aware")->Decide(input).replica, "r3");
  r3->backlog_ms = 0;
  r3->prefill_basis = PrefillBasis::kEnough;
  EXPECT_NE(FindPolicy("cache_aware")->Decide(input).replica, "r3");
}

TEST(CostModel, WhatIsLittleKnownTellsReplicasNotApart) {
  PolicyFixture f;
  for (const double linear_ms : {1, 2, 30}) {
    Replica& r = f.Add("r");
    r.prefill.linear_ms = linear_ms;
    r.prefill_basis = PrefillBasis::kLittle;
  }
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(CostAt(f, i, f.Prompt(1000)).ttft_ms, 2000) << i;
}

TEST(CostModel, AGuessIsNeverComparedWithAMeasurement) {
  // One replica has answered a little, fifty times as fast as everybody is guessed to be.
  PolicyFixture f;
  Replica& answered = f.Add("answered");
  Replica& silent = f.Add("silent");
  answered.prefill = {.linear_ms = 0.1};
  answered.prefill_basis = PrefillBasis::kLittle;
  silent.prefill_basis = PrefillBasis::kNone;
  EXPECT_EQ(CostAt(f, 1, f.Prompt(1000)).ttft_ms, 100);
  answered.backlog_ms = 200;
  EXPECT_EQ(FindPolicy("cache_aware")->Decide(f.Prompt(1000)).replica, "silent");
}

TEST(CostModel, InACrowdWorkCostsMoreThanWaiting) {
  // In a fleet with nothing to do it is better to compute 4.8 s than to wait 6. When requests come
  // as fast as they can be computed, each ms of work is waited for by others too, and one waits
  // longer for a warm place.
  PolicyFixture f;
  Replica& warm = f.Add("warm");
  Replica& cold = f.Add("cold");
  f.at(0).match.device_tokens = 960;
  warm.backlog_ms = 6000;
  EXPECT_EQ(FindPolicy("cache_aware")->Decide(f.Prompt(1000)).replica, "cold");
  warm.requests_per_ms = cold.requests_per_ms = 0.0005;
  warm.typical_prefill_ms = cold.typical_prefill_ms = 2000;
  const RoutingDecision d = FindPolicy("cache_aware")->Decide(f.Prompt(1000));
  EXPECT_EQ(d.replica, "warm");
  EXPECT_GT(d.candidates[1].crowding_ms, d.candidates[0].crowding_ms);
}

TEST(CostModel, AQueueElsewhereMakesASlowReplicaAttractive) {
  // D24: a mixed fleet under load, whose fast replicas queue while the slow one has nothing to do.
  PolicyFixture f;
  Replica& slow = f.Add("slow");
  slow.prefill.linear_ms = 15;
  for (const char* id : {"fast1", "fast2"}) f.Add(id).backlog_ms = 11000;
  for (size_t i = 0; i < 3; ++i) {
    Replica& r = const_cast<Replica&>(*f.at(i).replica);
    r.requests_per_ms = 0.001;
    r.typical_prefill_ms = 5000;
  }
  const RoutingDecision d = FindPolicy("cache_aware")->Decide(f.Prompt(1000));
  EXPECT_EQ(d.replica, "slow");
  EXPECT_DOUBLE_EQ(d.candidates[0].crowding_ms, d.candidates[1].crowding_ms);
}

TEST(CostModel, APromptThatDoesNotFitBesideWhatRunsWaitsForAnEnd) {
  PolicyFixture f;
  for (const char* id : {"pressed", "other"}) f.Add(id).cache = {.capacity_tokens = 100000};
  Replica& pressed = const_cast<Replica&>(*f.at(0).replica);
  pressed.load.kv_usage = 0.99;
  pressed.load.running = 4;
  pressed.load.slots_total = 8;
  f.at(0).service_ms = 8000;
  EXPECT_DOUBLE_EQ(CostAt(f, 0, f.Prompt(1600)).queue_ms, 2000);
  EXPECT_DOUBLE_EQ(CostAt(f, 0, f.Prompt(900)).queue_ms, 0);
  f.at(0).match.device_tokens = f.at(1).match.device_tokens = 1200;  // nothing new for these
  EXPECT_DOUBLE_EQ(CostAt(f, 0, f.Prompt(1600)).queue_ms, 0);
}

TEST(CostModel, WhatOneReplicaAloneLearnedOfMatchesTellsItNotApart) {
  // A newcomer has seen few hits. It would look dearer than the others for ever.
  PolicyFixture f;
  for (const char* id : {"a", "b", "newcomer"}) f.Add(id).cache.beyond_tokens = 15;
  const_cast<Replica&>(*f.at(2).replica).cache.beyond_tokens = 4;
  for (size_t i = 0; i < 3; ++i) f.at(i).match.device_tokens = 512;
  EXPECT_EQ(CostAt(f, 2, f.Prompt(1000)).local_tokens, 527u);
}

TEST(CostModel, AMissGoesWhereTheLoadIsLeastWhateverTheCachesHold) {
  // D23: 500 cold prompts, one replica busy and nearly empty, the other idle and full of blocks.
  PolicyFixture f;
  Replica& busy = f.Add("busy");
  Replica& idle = f.Add("idle");
  busy.cache = {.capacity_tokens = 100000, .held_tokens = 1000};
  idle.cache = {.capacity_tokens = 100000, .held_tokens = 90000};
  busy.backlog_ms = 5000;
  std::map<std::string, int> count;
  SeededRandom random(1);
  for (int i = 0; i < 500; ++i) {
    PolicyInput input = f.Prompt(200);
    input.draw = random.Next();
    const RoutingDecision d = FindPolicy("cache_aware")->Decide(input);
    if (i == 0) EXPECT_EQ(d.replica, "idle");
    ++count[d.replica];
    (d.replica == "busy" ? busy : idle).backlog_ms += 1000;
  }
  EXPECT_LE(std::max(count["busy"], count["idle"]), 1.5 * 250);
}

}  // namespace
}  // namespace ember::router
