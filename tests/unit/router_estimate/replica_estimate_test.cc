#include "router/estimate/replica_estimate.h"

#include <gtest/gtest.h>

#include <deque>

#include "proto/base/random.h"

namespace ember::router {
namespace {

TimePoint At(double ms) {
  return TimePoint(Duration(static_cast<int64_t>(ms * 1e6)) + seconds(1000));
}

Replica Described(const ReplicaEstimate& estimate, double ms) {
  Replica view;
  estimate.Describe(At(ms), {}, &view);
  return view;
}

TEST(ReplicaEstimate, WaitingBehindOthersIsNotPrefill) {
  // An engine that computes one prompt after the other, at 0.1 ms a token and 2 ms a request, with
  // arrivals so dense that most of a time to first token is waiting.
  ReplicaEstimate estimate;
  SeededRandom random(1);
  double now = 0, free = 0;
  std::deque<std::tuple<double, ReplicaEstimate::FlightNumber, ReplyTokens>> due;
  const auto finish = [&](double until) {
    for (; !due.empty() && std::get<0>(due.front()) <= until; due.pop_front()) {
      const auto& [at, flight, tokens] = due.front();
      estimate.OnFirstToken(flight, At(at));
      estimate.OnReply(flight, tokens, At(at));
      estimate.OnEnd(flight);
    }
  };
  for (int i = 0; i < 300; ++i) {
    now += static_cast<double>(random.Next() % 100);
    finish(now);
    const ReplyTokens tokens{.prompt = 1500, .cached = 500 + random.Next() % 900};
    free = std::max(free, now) + 2 + 0.1 * static_cast<double>(tokens.prompt - tokens.cached);
    due.emplace_back(free, estimate.OnSent(50, At(now)), tokens);
  }
  finish(1e9);
  const Replica view = Described(estimate, now);
  EXPECT_EQ(view.prefill_basis, PrefillBasis::kEnough);
  EXPECT_NEAR(view.prefill.PredictMs(300, 0), 32, 1);
  EXPECT_NEAR(view.prefill.PredictMs(1500, 0), 152, 5);
  EXPECT_NEAR(view.cache.reuse, 950.0 / 1500, 0.05);
}

TEST(ReplicaEstimate, TheBacklogIsWhatIsSentAndNotServed) {
  ReplicaEstimate estimate;
  const auto first = estimate.OnSent(100, At(0));
  const auto second = estimate.OnSent(40, At(10));
  EXPECT_DOUBLE_EQ(estimate.BacklogMs(At(10)), 130);  // the first was computed for 10 ms
  EXPECT_DOUBLE_EQ(estimate.BacklogMs(At(500)), 40);  // late, but not for ever
  estimate.OnFirstToken(first, At(500));
  EXPECT_DOUBLE_EQ(estimate.BacklogMs(At(515)), 25);
  estimate.OnFirstToken(second, At(540));
  EXPECT_EQ(estimate.BacklogMs(At(541)), 0);
  estimate.OnEnd(second);
  estimate.OnEnd(first);
  const auto lost = estimate.OnSent(70, At(700));
  estimate.OnEnd(lost);  // never answered
  EXPECT_EQ(estimate.BacklogMs(At(710)), 0);
}

TEST(ReplicaEstimate, OthersQueueCountsTheLessTheOlderAndTheShorterItIs) {
  ReplicaEstimate estimate;
  estimate.OnOthers(40, At(0));
  EXPECT_DOUBLE_EQ(estimate.BacklogMs(At(0)), 40);
  EXPECT_LT(estimate.BacklogMs(At(80)), 10);
  estimate.OnOthers(4000, At(80));
  EXPECT_GT(estimate.BacklogMs(At(330)), 3700);  // is not worked off by the next report
}

// What waits behind others' prompts takes long, and says nothing of a prompt's length.
TEST(ReplicaEstimate, AReportedQueueIsCostedByWhatPromptsTakeAndNotByHowLongTheyWaited) {
  ReplicaEstimate estimate;
  double now = 0;
  const auto reply = [&](double ms, uint64_t tokens) {
    const auto flight = estimate.OnSent(10, At(now));
    estimate.OnFirstToken(flight, At(now + ms));
    estimate.OnReply(flight, {.prompt = tokens}, At(now + ms));
    estimate.OnEnd(flight);
    now += 1000;
  };
  for (int i = 0; i < 64; ++i) reply(i % 3 == 0 ? 400 : 20 + i % 7, 200 + 10 * (i % 7));
  estimate.OnReport(10, At(now));
  EXPECT_LE(estimate.BacklogMs(At(now)), 10 * 30);
  EXPECT_GE(estimate.BacklogMs(At(now)), 10 * 5);
}

// An engine counts ours among those that wait, which we know better; not what has just been sent.
TEST(ReplicaEstimate, OfAReportedQueueOnlyOthersAreAdded) {
  ReplicaEstimate estimate;
  const auto known = estimate.OnSent(10, At(0));
  estimate.OnFirstToken(known, At(20));
  estimate.OnReply(known, {.prompt = 200}, At(20));
  estimate.OnEnd(known);
  const double typical = Described(estimate, 20).typical_prefill_ms;
  ASSERT_GT(typical, 5);
  for (int i = 0; i < 3; ++i) estimate.OnSent(10, At(100));
  const auto others = [&](uint32_t waiting, double ms) {
    estimate.OnOthers(0, At(ms));
    const double ours = estimate.BacklogMs(At(ms));
    estimate.OnReport(waiting, At(ms));
    return (estimate.BacklogMs(At(ms)) - ours) / typical;
  };
  const double of_one = others(1, 110);
  EXPECT_GT(of_one, 0.1) << "ours are still on their way";
  EXPECT_LT(of_one, 0.5) << "it is news of the past";
  EXPECT_NEAR(others(3, 130), 0, 1e-9);
  EXPECT_NEAR(others(5, 130), 2 * of_one, 1e-9);
  EXPECT_NEAR(others(1, 130), 0, 1e-9);
}

// A whole reply takes as long as its answer, too.
TEST(ReplicaEstimate, WholeRepliesDoNotPassForPrefills) {
  ReplicaEstimate estimate;
  double now = 0;
  const auto reply = [&](double ms, bool whole) {
    const auto flight = estimate.OnSent(10, At(now));
    now += ms;
    whole ? estimate.OnWholeReply(flight, At(now)) : estimate.OnFirstToken(flight, At(now));
    estimate.OnReply(flight, {.prompt = 1000}, At(now));
    estimate.OnEnd(flight);
  };
  for (int i = 0; i < 20; ++i) reply(5000, true);
  EXPECT_NE(Described(estimate, now).prefill_basis, PrefillBasis::kEnough);
  for (int i = 0; i < 20; ++i) reply(100, false);
  EXPECT_EQ(Described(estimate, now).prefill_basis, PrefillBasis::kEnough);
  for (int i = 0; i < 5; ++i) reply(5000, true);
  EXPECT_NEAR(Described(estimate, now).prefill.PredictMs(1000, 0), 100, 5);
}

TEST(ReplicaEstimate, LoadsTeachTheRateAndItsTailAndNotThePrefill) {
  ReplicaEstimate estimate;
  double now = 0;
  const auto reply = [&](double ms, ReplyTokens tokens) {
    const auto flight = estimate.OnSent(10, At(now));
    estimate.OnFirstToken(flight, At(now += ms));
    estimate.OnReply(flight, tokens, At(now += 100));
    estimate.OnEnd(flight);
  };
  for (uint64_t n = 100; n < 1000; n += 100) reply(0.1 * static_cast<double>(n), {.prompt = n});
  const double before = Described(estimate, now).prefill.PredictMs(100, 1000);
  // 900 tokens loaded in 45 ms, every fifth time in 180 ms, then 100 computed in 10.
  for (int i = 0; i < 50; ++i) {
    reply(i % 5 == 0 ? 190 : 55, {.prompt = 1000, .cached = 900, .loaded = 900});
  }
  const Replica view = Described(estimate, now);
  EXPECT_DOUBLE_EQ(view.prefill.PredictMs(100, 1000), before);
  EXPECT_NEAR(view.load_tokens_per_ms, 20, 0.5);
  EXPECT_NEAR(view.load_tail_tokens_per_ms, 5, 0.2);
  Replica agent;
  agent.load_tokens_per_ms = 7;
  estimate.Describe(At(now), {.load_rate = true}, &agent);
  EXPECT_EQ(agent.load_tokens_per_ms, 7) << "an agent knows its own";
  EXPECT_EQ(agent.load_tail_tokens_per_ms, view.load_tail_tokens_per_ms);
}

// Of few tokens the round trip would be measured, of a whole reply its answer.
TEST(ReplicaEstimate, ShortLoadsAndWholeRepliesTeachNoLoadRate) {
  ReplicaEstimate estimate;
  double now = 0;
  const auto reply = [&](double ms, ReplyTokens tokens, bool whole) {
    const auto flight = estimate.OnSent(10, At(now));
    now += ms;
    whole ? estimate.OnWholeReply(flight, At(now)) : estimate.OnFirstToken(flight, At(now));
    estimate.OnReply(flight, tokens, At(now += 100));
    estimate.OnEnd(flight);
  };
  for (uint64_t n = 100; n < 1000; n += 100) {
    reply(0.1 * static_cast<double>(n), {.prompt = n}, false);
  }
  for (int i = 0; i < 20; ++i) {
    reply(90, {.prompt = 500, .cached = 63, .loaded = 63}, false);
    reply(5000, {.prompt = 1000, .cached = 900, .loaded = 900}, true);
  }
  EXPECT_EQ(Described(estimate, now).load_tokens_per_ms, Replica().load_tokens_per_ms);
  reply(100, {.prompt = 500, .cached = 64, .loaded = 64}, false);
  EXPECT_GT(Described(estimate, now).load_tokens_per_ms, 0);
}

TEST(ReplicaEstimate, WhatMatchesDoNotSeeOfAnswersAndCutBlocksIsLearned) {
  // Each reply finds 56 tokens more than was matched; every tenth conversation was evicted.
  ReplicaEstimate estimate;
  double now = 0;
  for (int i = 0; i < 200; ++i) {
    const auto flight = estimate.OnSent(10, At(now));
    estimate.OnFirstToken(flight, At(now += 20));
    const uint64_t matched = 448;
    estimate.OnReply(flight,
                     {.prompt = 1000,
                      .cached = i % 10 == 0 ? 448 : matched + 56,
                      .predicted = matched + Described(estimate, now).cache.beyond_tokens},
                     At(now));
    estimate.OnEnd(flight);
  }
  EXPECT_NEAR(Described(estimate, now).cache.beyond_tokens, 50, 8);
  const uint32_t before = Described(estimate, now).cache.beyond_tokens;
  for (int i = 0; i < 20; ++i) {
    const auto flight = estimate.OnSent(10, At(now));
    estimate.OnFirstToken(flight, At(now += 20));
    const uint64_t cached = i % 2 == 0 ? 5000 : 0;  // others' doing, or evicted
    estimate.OnReply(flight, {.prompt = 6000, .cached = cached, .predicted = 2000}, At(now));
    estimate.OnEnd(flight);
  }
  EXPECT_EQ(Described(estimate, now).cache.beyond_tokens, before) << "so much is no habit";
}

TEST(ReplicaEstimate, TheAgentsOwnFitWins) {
  ReplicaEstimate estimate;
  for (int i = 0; i < 20; ++i) {
    const auto flight = estimate.OnSent(10, At(1000 * i));
    estimate.OnFirstToken(flight, At(1000 * i + 20));
    estimate.OnReply(flight, {.prompt = 200}, At(1000 * i + 30));
    estimate.OnEnd(flight);
  }
  Replica view;
  view.prefill.linear_ms = 7;
  view.prefill_basis = PrefillBasis::kEnough;
  estimate.Describe(At(20000), {.prefill = true}, &view);
  EXPECT_EQ(view.prefill.linear_ms, 7);
  estimate.Describe(At(20000), {}, &view);
  EXPECT_NEAR(view.prefill.PredictMs(200, 0), 20, 0.1);
}

TEST(ReplicaEstimate, AfterAMinutesSilenceItIsJudgedAnew) {
  // It was slow, was therefore sent nothing, and is well again.
  ReplicaEstimate estimate;
  const auto answer = [&](double at, double ms) {
    const auto flight = estimate.OnSent(0, At(at));
    estimate.OnFirstToken(flight, At(at + ms));
    estimate.OnReply(flight, {.prompt = 1000}, At(at + ms));
    estimate.OnEnd(flight);
  };
  for (int i = 0; i < 20; ++i) answer(i * 2000, 1500);
  EXPECT_NEAR(Described(estimate, 40000).prefill.PredictMs(1000, 0), 1500, 50);
  answer(101000, 100);
  EXPECT_EQ(Described(estimate, 101200).prefill_basis, PrefillBasis::kLittle) << "tried again";
  for (int i = 1; i < 4; ++i) answer(101000 + i * 1000, 100);
  const Replica view = Described(estimate, 104200);
  EXPECT_EQ(view.prefill_basis, PrefillBasis::kEnough);
  EXPECT_NEAR(view.prefill.PredictMs(1000, 0), 100, 30);
}

// Where nothing is streamed the answers are most of what replies take, and their lengths are told.
TEST(ReplicaEstimate, WholeRepliesTeachTheOrderOfMagnitudeHoweverLongTheirAnswers) {
  struct Engine {
    double prompt_ms, output_ms;  // a token
  };
  // A processor, a small accelerator, a large one.
  for (const Engine& engine : {Engine{4, 50}, Engine{0.2, 12}, Engine{0.06, 8}}) {
    for (const uint64_t output : {0, 1, 50, 1000}) {
      ReplicaEstimate estimate;
      double now = 0;
      for (int i = 0; i < 64; ++i) {
        const uint64_t prompt = 500 + 100 * (i % 16);
        const double ms = 5 + engine.prompt_ms * static_cast<double>(prompt) +
                          engine.output_ms * static_cast<double>(output);
        const auto flight = estimate.OnSent(10, At(now));
        estimate.OnWholeReply(flight, At(now += ms));
        estimate.OnReply(flight, {.prompt = prompt, .output = output}, At(now));
        estimate.OnEnd(flight);
      }
      const Replica view = Described(estimate, now);
      EXPECT_EQ(view.prefill_basis, PrefillBasis::kLittle);
      const double ratio = view.prefill.PredictMs(1000, 0) / (1000 * engine.prompt_ms);
      EXPECT_GE(ratio, 0.15) << engine.prompt_ms << " " << output;
      EXPECT_LE(ratio, 3) << engine.prompt_ms << " " << output;
    }
  }
}

TEST(ReplicaEstimate, TheFirstStreamsCountForMoreThanAllWholeReplies) {
  ReplicaEstimate estimate;
  double now = 0;
  const auto reply = [&](bool whole, double ms) {
    const auto flight = estimate.OnSent(10, At(now += 2000));
    if (whole) {
      estimate.OnWholeReply(flight, At(now + ms));
    } else {
      estimate.OnFirstToken(flight, At(now + ms));
    }
    estimate.OnReply(flight, {.prompt = 1000}, At(now + ms));
    estimate.OnEnd(flight);
  };
  for (int i = 0; i < 16; ++i) reply(true, 900 - 10 * i);
  for (int i = 0; i < 4; ++i) reply(false, 100);
  EXPECT_NEAR(Described(estimate, now).prefill.PredictMs(1000, 0), 100, 5);
  reply(true, 500);  // more than that: tells nothing
  EXPECT_NEAR(Described(estimate, now).prefill.PredictMs(1000, 0), 100, 5);
}

TEST(ReplicaEstimate, WhatRepliesSaidAMinuteAgoIsStale) {
  // A replica that seemed slow once is sent nothing that could show that it no longer is.
  ReplicaEstimate estimate;
  for (int i = 0; i < 4; ++i) {
    const auto flight = estimate.OnSent(10, At(1000 * i));
    estimate.OnFirstToken(flight, At(1000 * i + 500));
    estimate.OnReply(flight, {.prompt = 200}, At(1000 * i + 500));
    estimate.OnEnd(flight);
  }
  EXPECT_EQ(Described(estimate, 60000).prefill_basis, PrefillBasis::kEnough);
  EXPECT_EQ(Described(estimate, 64000).prefill_basis, PrefillBasis::kStale);
  EXPECT_NEAR(Described(estimate, 64000).prefill.PredictMs(200, 0), 500, 1);
}

TEST(ReplicaEstimate, CountsThatContradictThemselvesTeachNothing) {
  ReplicaEstimate estimate;
  for (const ReplyTokens tokens :
       {ReplyTokens{.prompt = 10, .cached = 10}, ReplyTokens{.prompt = 10, .cached = 500},
        ReplyTokens{.prompt = 100, .cached = 10, .loaded = 50}, ReplyTokens{}}) {
    const auto flight = estimate.OnSent(10, At(0));
    estimate.OnFirstToken(flight, At(20));
    estimate.OnReply(flight, tokens, At(30));
    estimate.OnEnd(flight);
  }
  const Replica view = Described(estimate, 100);
  EXPECT_EQ(view.prefill_basis, PrefillBasis::kNone);
  EXPECT_EQ(view.cache.reuse, 0);
  EXPECT_NEAR(view.requests_per_ms, 4.0 / 10000, 1e-5);
  EXPECT_LT(Described(estimate, 60000).requests_per_ms, 1e-5);
}

}  // namespace
}  // namespace ember::router
