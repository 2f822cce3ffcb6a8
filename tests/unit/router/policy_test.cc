#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "proto/base/random.h"
#include "router/policy/registry.h"
#include "tests/unit/router/policy_fixture.h"

namespace ember::router {
namespace {

PolicyFixture Fleet(int n) {
  PolicyFixture f;
  for (int i = 1; i <= n; ++i) f.Add("r" + std::to_string(i));
  return f;
}

TEST(Policy, RegistryKnowsEachByItsOwnNameAndNothingElse) {
  for (const Policy* p : AllPolicies()) EXPECT_EQ(FindPolicy(p->name()), p);
  EXPECT_EQ(AllPolicies().size(), 7u);
  EXPECT_EQ(FindPolicy("cache-aware"), nullptr);
  EXPECT_EQ(FindPolicy(""), nullptr);
}

TEST(Policy, EveryOneDecidesForASingleReplicaAndIsPure) {
  PolicyFixture f = Fleet(1);
  PolicyInput input = f.Prompt(1000, 500);
  for (const Policy* p : AllPolicies()) {
    input.draw = 0xffffffffffffffff;
    const RoutingDecision first = p->Decide(input);
    EXPECT_EQ(first.replica, "r1");
    EXPECT_EQ(first.policy, p->name());
    EXPECT_FALSE(first.reason.empty());
    EXPECT_EQ(p->Decide(input).reason, first.reason);
  }
}

TEST(Policy, RoundRobinGivesEachItsTurn) {
  PolicyFixture f = Fleet(3);
  std::map<std::string, int> count;
  for (uint64_t turn = 0; turn < 300; ++turn) {
    PolicyInput input = f.Input();
    input.turn = turn;
    ++count[FindPolicy("round_robin")->Decide(input).replica];
  }
  EXPECT_EQ(count, (std::map<std::string, int>{{"r1", 100}, {"r2", 100}, {"r3", 100}}));
}

TEST(Policy, RandomIsAboutEven) {
  PolicyFixture f = Fleet(4);
  SeededRandom random(7);
  std::map<std::string, int> count;
  for (int i = 0; i < 10000; ++i) {
    PolicyInput input = f.Input();
    input.draw = random.Next();
    ++count[FindPolicy("random")->Decide(input).replica];
  }
  ASSERT_EQ(count.size(), 4u);
  for (const auto& [id, n] : count) EXPECT_NEAR(n, 2500, 200) << id;
}

TEST(Policy, LeastLoadedCountsOwnAndReportedWorkAndSpreadsEquals) {
  PolicyFixture f;
  f.Add("r1").load.running = 2;
  f.Add("r2").load.waiting = 1;
  f.Add("r3").in_flight = 1;
  SeededRandom random(1);
  std::map<std::string, int> count;
  for (int i = 0; i < 1000; ++i) {
    PolicyInput input = f.Input();
    input.draw = random.Next();
    ++count[FindPolicy("least_loaded")->Decide(input).replica];
  }
  EXPECT_EQ(count.count("r1"), 0u);
  EXPECT_NEAR(count["r2"], 500, 100);
  EXPECT_NEAR(count["r3"], 500, 100);
}

std::map<std::string, int> Choices(const PolicyFixture& f, const char* policy, int n) {
  SeededRandom random(11);
  std::map<std::string, int> count;
  for (int i = 0; i < n; ++i) {
    PolicyInput input = f.Input();
    input.draw = random.Next();
    input.turn = static_cast<uint64_t>(i);
    const std::string conversation = "c" + std::to_string(i);
    input.conversation_id = conversation;
    ++count[FindPolicy(policy)->Decide(input).replica];
  }
  return count;
}

TEST(Policy, PowerOfTwoNeverTakesTheBusierAndEachPairIsAsLikely) {
  PolicyFixture f = Fleet(4);
  for (size_t i = 0; i < 4; ++i) {
    const_cast<Replica*>(f.at(i).replica)->load.running = static_cast<uint32_t>(i);
  }
  // r1 wins its 3 of 6 pairs, r2 two, r3 one.
  const auto count = Choices(f, "power_of_two", 6000);
  EXPECT_EQ(count.count("r4"), 0u);
  EXPECT_NEAR(count.at("r1"), 3000, 150);
  EXPECT_NEAR(count.at("r2"), 2000, 150);
  EXPECT_NEAR(count.at("r3"), 1000, 150);
}

TEST(Policy, AReplicaOfTwiceTheWeightTakesTwiceAsMuch) {
  PolicyFixture f = Fleet(3);
  const_cast<Replica*>(f.at(1).replica)->weight = 2;
  for (const char* policy : {"random", "sticky"}) {
    EXPECT_NEAR(Choices(f, policy, 4000)["r2"], 2000, 200) << policy;
  }
  const_cast<Replica*>(f.at(0).replica)->in_flight = 3;
  const_cast<Replica*>(f.at(1).replica)->in_flight = 3;
  const_cast<Replica*>(f.at(2).replica)->in_flight = 2;
  EXPECT_EQ(Choices(f, "least_loaded", 10)["r2"], 10);
}

TEST(Policy, ARankIsChosenLikeAReplicaAndIsOneThatTheReplicaHas) {
  // A16: replicas of 2 and 4 ranks, the second's numbered from 2.
  PolicyFixture f;
  const std::map<std::string, std::pair<uint32_t, uint32_t>> ranks = {{"a", {0, 2}}, {"b", {2, 6}}};
  for (const auto& [id, range] : ranks) {
    for (uint32_t rank = range.first; rank < range.second; ++rank) f.Add(id).rank = rank;
  }
  SeededRandom random(3);
  for (const Policy* policy : AllPolicies()) {
    std::map<std::pair<std::string, uint32_t>, int> count;
    for (int i = 0; i < 10000; ++i) {
      PolicyInput input = f.Prompt(1000);
      input.draw = random.Next();
      input.turn = static_cast<uint64_t>(i);
      const std::string conversation = "c" + std::to_string(i);
      input.conversation_id = conversation;
      const RoutingDecision d = policy->Decide(input);
      ASSERT_TRUE(d.rank.has_value());
      const auto [first, end] = ranks.at(d.replica);
      ASSERT_TRUE(*d.rank >= first && *d.rank < end) << policy->name();
      ASSERT_EQ(f.at(d.candidate).replica->rank, d.rank);
      ++count[{d.replica, *d.rank}];
    }
    EXPECT_EQ(count.size(), 6u) << policy->name() << ": a rank that nothing reaches";
  }
}

std::string Sticky(const PolicyFixture& f, const std::string& conversation, uint64_t draw = 0) {
  PolicyInput input = f.Input();
  input.conversation_id = conversation;
  input.draw = draw;
  return FindPolicy("sticky")->Decide(input).replica;
}

TEST(Sticky, ConversationStaysAndTheConversationsSpread) {
  PolicyFixture f = Fleet(4);
  std::map<std::string, int> count;
  for (int i = 0; i < 4000; ++i) {
    const std::string id = "conversation-" + std::to_string(i);
    const std::string home = Sticky(f, id);
    EXPECT_EQ(Sticky(f, id, 12345), home);
    ++count[home];
  }
  for (const auto& [id, n] : count) EXPECT_NEAR(n, 1000, 150) << id;
}

TEST(Sticky, RemovingAReplicaMovesOnlyItsShareAndAddingTakesOnlyItsShare) {
  PolicyFixture four = Fleet(4);
  PolicyFixture three = Fleet(4);
  three.Remove("r2");
  int moved = 0;
  for (int i = 0; i < 4000; ++i) {
    const std::string id = "c" + std::to_string(i);
    const std::string before = Sticky(four, id), after = Sticky(three, id);
    if (before != "r2") {
      EXPECT_EQ(after, before) << "moved though its replica stayed";
    } else {
      ++moved;
    }
  }
  EXPECT_NEAR(moved, 1000, 150);
}

TEST(Sticky, OrderOfTheReplicasDoesNotMatter) {
  PolicyFixture a = Fleet(3), b;
  for (const char* id : {"r3", "r1", "r2"}) b.Add(id);
  for (int i = 0; i < 200; ++i)
    EXPECT_EQ(Sticky(a, std::to_string(i)), Sticky(b, std::to_string(i)));
}

TEST(Sticky, LoadIsBoundedAndTheSurplusGoesToTheSameSecondChoice) {
  PolicyFixture f = Fleet(4);
  const std::string home = Sticky(f, "hot");
  // Every request belongs to one conversation and none ends: no replica may take them all.
  std::map<std::string, Replica*> by_id;
  for (size_t i = 0; i < 4; ++i) by_id[f.at(i).replica->id] = const_cast<Replica*>(f.at(i).replica);
  for (int i = 0; i < 400; ++i) ++by_id[Sticky(f, "hot")]->in_flight;
  for (const auto& [id, r] : by_id) EXPECT_LE(r->in_flight, 126u) << id;
  EXPECT_EQ(by_id[home]->in_flight, 125u);
}

// One that asks for more than a replica can do leaves none idle while the others queue.
TEST(Sticky, WhatIsTooMuchOfAHotConversationIsSharedByAllOthers) {
  PolicyFixture f = Fleet(4);
  const std::string home = Sticky(f, "hot");
  std::map<std::string, Replica*> by_id;
  for (size_t i = 0; i < 4; ++i) {
    by_id[f.at(i).replica->id] = const_cast<Replica*>(f.at(i).replica);
    by_id[f.at(i).replica->id]->load.slots_total = 0;
  }
  for (int i = 0; i < 20; ++i) ++by_id[Sticky(f, "hot")]->in_flight;
  EXPECT_LE(by_id[home]->in_flight, 9u);
  for (const auto& [id, r] : by_id) EXPECT_GE(r->in_flight, 3u) << id;
}

TEST(Sticky, AFreeSlotIsNeverOverTheBound) {
  PolicyFixture f = Fleet(2);
  const std::string home = Sticky(f, "x");
  for (size_t i = 0; i < 2; ++i) {
    auto* r = const_cast<Replica*>(f.at(i).replica);
    r->load.slots_total = 16;
    if (r->id == home) r->load.running = 15;
  }
  EXPECT_EQ(Sticky(f, "x"), home);
}

TEST(Sticky, AFewRequestsAboveTheMeanAreNoHotSpot) {
  PolicyFixture f = Fleet(4);
  const std::string home = Sticky(f, "x");
  for (size_t i = 0; i < 4; ++i) {
    auto* r = const_cast<Replica*>(f.at(i).replica);
    r->load.slots_total = 0;
    if (r->id == home) r->in_flight = 3;
  }
  EXPECT_EQ(Sticky(f, "x"), home);
}

TEST(Sticky, WithoutAnIdItIsRandom) {
  PolicyFixture f = Fleet(2);
  std::map<std::string, int> count;
  SeededRandom random(2);
  for (int i = 0; i < 1000; ++i) ++count[Sticky(f, "", random.Next())];
  EXPECT_NEAR(count["r1"], 500, 100);
  EXPECT_NEAR(count["r2"], 500, 100);
}

TEST(Prefix, LongestMatchThenLoad) {
  PolicyFixture f = Fleet(3);
  f.at(0).match.device_tokens = 512;
  f.at(1).match.device_tokens = 512;
  f.at(2).match.device_tokens = 496;
  const_cast<Replica*>(f.at(0).replica)->load.running = 5;
  const_cast<Replica*>(f.at(1).replica)->load.running = 4;
  const RoutingDecision d = FindPolicy("prefix")->Decide(f.Prompt(600));
  EXPECT_EQ(d.replica, "r2");
  EXPECT_EQ(d.predicted_route, Route::kLocal);
  EXPECT_EQ(d.candidates.size(), 3u);
}

TEST(Prefix, WithoutAnyMatchTheLoadDecides) {
  PolicyFixture f = Fleet(2);
  const_cast<Replica*>(f.at(0).replica)->load.running = 1;
  const RoutingDecision d = FindPolicy("prefix")->Decide(f.Prompt(600));
  EXPECT_EQ(d.replica, "r2");
  EXPECT_EQ(d.predicted_route, Route::kRecompute);
}

}  // namespace
}  // namespace ember::router
