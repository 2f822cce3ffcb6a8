#include <gtest/gtest.h>

#include <map>

#include "proto/base/random.h"
#include "router/policy/cost_model.h"
#include "router/policy/registry.h"
#include "tests/unit/router/policy_fixture.h"

namespace ember::router {
namespace {

RoutingDecision Decide(const PolicyInput& input) {
  return FindPolicy("cache_aware")->Decide(input);
}

CandidateCost CostOfFirst(PolicyFixture& f, const PolicyInput& input) {
  return CostModel(input).Of(f.at(0));
}

struct TwoReplicas : PolicyFixture {
  Replica& warm = Add("warm");
  Replica& cold = Add("cold");
  TwoReplicas() { at(0).match.device_tokens = 960; }
};

TEST(CacheAware, ChoosesTheWarmIdleReplica) {
  TwoReplicas f;
  const RoutingDecision d = Decide(f.Prompt(1000));
  EXPECT_EQ(d.replica, "warm");
  EXPECT_EQ(d.predicted_route, Route::kLocal);
  ASSERT_EQ(d.candidates.size(), 2u);
  EXPECT_DOUBLE_EQ(d.candidates[0].prefill_ms, 40 * 5.0);
  EXPECT_DOUBLE_EQ(d.candidates[1].prefill_ms, 1000 * 5.0);
  EXPECT_EQ(d.reason.substr(0, 12), "lowest_cost:");
}

TEST(CacheAware, StaysWithTheWarmReplicaWhileItsQueueIsCheaperThanComputing) {
  TwoReplicas f;
  f.warm.load = {.slots_total = 2, .running = 1};
  f.warm.backlog_ms = 3500;
  EXPECT_EQ(Decide(f.Prompt(1000)).replica, "warm");  // 3500 + 200 < 5000
  f.warm.backlog_ms = 5000;
  EXPECT_EQ(Decide(f.Prompt(1000)).replica, "cold");  // 5000 + 200 > 5000
}

TEST(CacheAware, LeavesAWarmReplicaWhoseQueueCostsMoreThanALoadElsewhere) {
  TwoReplicas f;
  f.cold.load_tokens_per_ms = 10;
  f.warm.load = {.slots_total = 2, .running = 1};
  f.warm.backlog_ms = 50;
  EXPECT_EQ(Decide(f.Prompt(1000, 960)).replica, "warm");  // 50 + 200 < 96 + 200
  f.warm.backlog_ms = 200;
  const RoutingDecision d = Decide(f.Prompt(1000, 960));  // 200 + 200 > 96 + 200
  EXPECT_EQ(d.replica, "cold");
  EXPECT_EQ(d.predicted_route, Route::kRemote);
  EXPECT_EQ(d.candidates[1].remote_tokens, 960u);
  EXPECT_DOUBLE_EQ(d.candidates[1].load_ms, 96);
}

TEST(CacheAware, RecomputesWhenLoadingIsSlower) {
  PolicyFixture f;
  Replica& r = f.Add("r");
  r.load_tokens_per_ms = 0.1;  // 10 ms a token, computing takes 5
  RoutingDecision d = Decide(f.Prompt(1000, 960));
  EXPECT_EQ(d.predicted_route, Route::kRecompute);
  EXPECT_EQ(d.candidates[0].remote_tokens, 0u);
  r.load_tokens_per_ms = 0;  // no store
  d = Decide(f.Prompt(1000, 960));
  EXPECT_EQ(d.predicted_route, Route::kRecompute);
}

TEST(CacheAware, LoadsOnlyWhatIsBeyondTheLocalMatch) {
  PolicyFixture f;
  f.Add("r").load_tokens_per_ms = 10;
  f.at(0).match.device_tokens = 640;
  const CandidateCost c = CostOfFirst(f, f.Prompt(1000, 960));
  EXPECT_EQ(c.local_tokens, 640u);
  EXPECT_EQ(c.remote_tokens, 320u);
  EXPECT_DOUBLE_EQ(c.load_ms, 32);
  EXPECT_DOUBLE_EQ(c.prefill_ms, 40 * 5.0);
}

TEST(CacheAware, LoadingEverythingOrNothingIsTheMinimum) {
  // The claim of cost_model.cc against a search over every length.
  SeededRandom random(3);
  for (int i = 0; i < 500; ++i) {
    PolicyFixture f;
    Replica& r = f.Add("r");
    r.prefill = {.linear_ms = 0.01 + static_cast<double>(random.Next() % 100) / 10,
                 .context_ms = static_cast<double>(random.Next() % 100) / 10000};
    r.load_tokens_per_ms = 0.01 + static_cast<double>(random.Next() % 1000) / 100;
    const uint64_t prompt = 200 + random.Next() % 400, stored = random.Next() % prompt;
    f.at(0).match.device_tokens = static_cast<uint32_t>(random.Next() % 200);
    const CandidateCost c = CostOfFirst(f, f.Prompt(prompt, stored));
    const uint64_t local =
        f.at(0).match.device_tokens < kMinMatchTokens ? 0 : f.at(0).match.device_tokens;
    double least = r.prefill.PredictMs(prompt - local, local);
    for (uint64_t n = local; n <= stored; ++n) {
      least = std::min(least, static_cast<double>(n - local) / r.load_tokens_per_ms +
                                  r.prefill.PredictMs(prompt - n, n));
    }
    EXPECT_NEAR(c.total_ms, least, 1e-6 * least);
  }
}

TEST(CacheAware, AMatchOfTheTemplateAloneIsIgnored) {
  PolicyFixture f;
  f.Add("r1").load.running = 1;
  f.Add("r2");
  f.at(0).match.device_tokens = kMinMatchTokens - 16;
  EXPECT_EQ(Decide(f.Prompt(1000)).replica, "r2");
}

TEST(CacheAware, WaitingForASlotCosts) {
  TwoReplicas f;
  f.warm.load = {.slots_total = 2, .running = 2, .waiting = 1};
  f.at(0).service_ms = 3000;
  const CandidateCost c = CostOfFirst(f, f.Prompt(1000));
  EXPECT_DOUBLE_EQ(c.queue_ms, 2 * 3000 / 2.0);  // two must end, one each 1500 ms
  f.warm.load = {.slots_total = 2, .running = 1};
  EXPECT_DOUBLE_EQ(CostOfFirst(f, f.Prompt(1000)).queue_ms, 0);
}

TEST(CacheAware, ColdPromptsSpreadByLoadThoughTheModelsDifferByNoise) {
  PolicyFixture f;
  f.Add("r1").prefill.linear_ms = 5.00;
  f.Add("r2").prefill.linear_ms = 5.05;
  std::map<std::string, int> count;
  SeededRandom random(5);
  for (int i = 0; i < 1000; ++i) {
    PolicyInput input = f.Prompt(1000);
    input.draw = random.Next();
    ++count[Decide(input).replica];
  }
  EXPECT_NEAR(count["r1"], 500, 100);
  const_cast<Replica*>(f.at(0).replica)->load.running = 1;
  EXPECT_EQ(Decide(f.Prompt(1000)).replica, "r2");
}

TEST(CacheAware, WithoutTokensTheLoadDecides) {
  TwoReplicas f;
  f.warm.load.running = 1;
  const RoutingDecision d = Decide(f.Input());
  EXPECT_EQ(d.replica, "cold");
  EXPECT_EQ(d.reason, "no_tokens: least load");
}

TEST(CacheAware, AMatchLongerThanThePromptIsClamped) {
  PolicyFixture f;
  f.Add("r");
  f.at(0).match.device_tokens = 1000;
  const CandidateCost c = CostOfFirst(f, f.Prompt(128, 4000));
  EXPECT_EQ(c.local_tokens, 127u);
  EXPECT_DOUBLE_EQ(c.total_ms, 5);
  EXPECT_DOUBLE_EQ(CostOfFirst(f, f.Prompt(0)).total_ms, 0);
}

TEST(CacheAware, HotPrefixSpreadsThroughTheStore) {
  // Requests with one stored prefix that never end: each goes where the queue is shortest, and no
  // replica is left out (thresholds of other routers starve them).
  PolicyFixture f;
  for (int i = 0; i < 4; ++i) {
    Replica& r = f.Add("r" + std::to_string(i));
    r.load_tokens_per_ms = 20;
    r.load.slots_total = 4;
  }
  f.at(0).match.device_tokens = 960;
  std::map<std::string, int> count;
  SeededRandom random(9);
  for (int i = 0; i < 200; ++i) {
    PolicyInput input = f.Prompt(1000, 960);
    input.draw = random.Next();
    const RoutingDecision d = Decide(input);
    ++count[d.replica];
    for (size_t j = 0; j < 4; ++j) {
      auto* r = const_cast<Replica*>(f.at(j).replica);
      if (r->id != d.replica) continue;
      ++r->in_flight;
      r->backlog_ms += 40 * r->prefill.linear_ms;
      f.at(j).match.device_tokens = 960;
    }
  }
  for (const auto& [id, n] : count) EXPECT_NEAR(n, 50, 10) << id;
}

}  // namespace
}  // namespace ember::router
