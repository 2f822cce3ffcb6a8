// What must stay true of whole fleets: the real policies and estimates on simulated replicas.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "router/policy/registry.h"
#include "tests/bench/fleet_sim/simulation.h"

namespace ember::sim {
namespace {

struct Figures {
  double hit = 0;
  double p50 = 0, p99 = 0;  // of TTFT, ms
  double imbalance = 0;     // requests, most over mean
  double share = 0;         // of `who` in the window
};

Figures FiguresOf(const Result& result, size_t replicas, const std::set<size_t>& who = {},
                  double from_ms = 0, double to_ms = 1e18) {
  Figures f;
  std::vector<double> ttft, requests(replicas);
  double prompt = 0, cached = 0, window = 0, theirs = 0;
  for (const Outcome& o : result.outcomes) {
    ttft.push_back(o.ttft_ms);
    prompt += static_cast<double>(o.prompt_tokens);
    cached += static_cast<double>(o.cached_tokens);
    ++requests[o.replica];
    if (o.at_ms < from_ms || o.at_ms >= to_ms) continue;
    ++window;
    theirs += who.contains(o.replica);
  }
  std::sort(ttft.begin(), ttft.end());
  f.hit = cached / prompt;
  f.p50 = ttft[ttft.size() / 2];
  f.p99 = ttft[ttft.size() * 99 / 100];
  f.imbalance = *std::max_element(requests.begin(), requests.end()) *
                static_cast<double>(replicas) / static_cast<double>(ttft.size());
  f.share = window > 0 ? theirs / window : 0;
  return f;
}

// Medians of three seeds.
template <typename F>
Figures Median(const F& run) {
  std::vector<Figures> all = {run(1), run(2), run(3)};
  Figures f;
  for (double Figures::*field :
       {&Figures::hit, &Figures::p50, &Figures::p99, &Figures::imbalance, &Figures::share}) {
    std::sort(all.begin(), all.end(),
              [&](const Figures& a, const Figures& b) { return a.*field < b.*field; });
    f.*field = all[1].*field;
  }
  return f;
}

const router::Policy& Policy(const char* name) { return *router::FindPolicy(name); }

ChatShape Chat(double sessions_per_s = 8) {
  return {.sessions_per_s = sessions_per_s, .seconds = 34};
}
ChatShape Hot(double sessions_per_s = 30) {
  return {.sessions_per_s = sessions_per_s,
          .turns = 2,
          .system_prompts = 16,
          .system_tokens = 1500,
          .user_tokens = 300,
          .think_s = 0.5,
          .zipf = 1.5};
}

TEST(Fleet, ChatsStayWhereTheirCacheIsAndHotPromptsSpread) {
  const auto run = [](const ChatShape& shape) {
    return Median([&](uint64_t seed) {
      return FiguresOf(Simulate({}, MakeChat("", shape, seed), Policy("cache_aware"), seed), 4);
    });
  };
  const Figures chat = run(Chat());
  EXPECT_GE(chat.hit, 0.81);  // the bound with caches without end is 0.83
  EXPECT_LE(chat.p99, 140);
  const Figures hot = run(Hot());
  EXPECT_GE(hot.hit, 0.80);
  EXPECT_LE(hot.p50, 50);
  EXPECT_LE(hot.imbalance, 1.15);
}

TEST(Fleet, AReplicaThatComesBackOrJoinsGetsItsShareThoughTheOthersAreWarm) {
  const Figures back = Median([](uint64_t seed) {
    const FleetShape fleet{.kill_first_ms = 12000, .back_ms = 16000};
    return FiguresOf(Simulate(fleet, MakeChat("", Chat(6), seed), Policy("cache_aware"), seed), 4,
                     {0}, 20000, 22000);
  });
  EXPECT_GE(back.share, 0.15);
  const Figures joined = Median([](uint64_t seed) {
    const FleetShape fleet{.join_ms = 12000};
    return FiguresOf(Simulate(fleet, MakeChat("", Chat(6), seed), Policy("cache_aware"), seed), 4,
                     {2, 3}, 22000, 34000);
  });
  EXPECT_GE(joined.share, 0.40);
}

TEST(Fleet, AHotPrefixSpreadsThroughTheStore) {
  // D24: 80 % of the sessions have one of 16 prefixes; 8 replicas that share a store.
  FleetShape fleet{.replicas = 8};
  fleet.engine.load_tokens_per_ms = 40;
  const auto run = [&](double zipf) {
    return Median([&](uint64_t seed) {
      ChatShape shape = Hot(60);
      shape.zipf = zipf;
      return FiguresOf(Simulate(fleet, MakeChat("", shape, seed), Policy("cache_aware"), seed), 8);
    });
  };
  const Figures uniform = run(0), hot = run(2.8);
  EXPECT_LE(hot.p99, 1.5 * uniform.p99);
  EXPECT_LE(hot.imbalance, 1.25);
}

TEST(Fleet, TheStoreMakesTheTailShorterAndTheHitsMore) {
  for (const ChatShape& shape : {Chat(6), Hot()}) {
    const auto run = [&](double load_tokens_per_ms) {
      return Median([&](uint64_t seed) {
        FleetShape fleet{.kill_first_ms = 12000, .back_ms = 16000};
        fleet.engine.load_tokens_per_ms = load_tokens_per_ms;
        fleet.engine.slow_loads = 0.1;
        return FiguresOf(Simulate(fleet, MakeChat("", shape, seed), Policy("cache_aware"), seed),
                         4);
      });
    };
    const Figures without = run(0), with = run(40);
    EXPECT_LT(with.p99, without.p99);
    EXPECT_GT(with.hit, without.hit);
  }
}

TEST(Fleet, SeveralRoutersAreAsGoodAsOne) {
  // D25: each sees its own requests at once and the others' in reports only.
  const auto run = [](const ChatShape& shape, size_t routers) {
    return Median([&](uint64_t seed) {
      const FleetShape fleet{.routers = routers};
      return FiguresOf(Simulate(fleet, MakeChat("", shape, seed), Policy("cache_aware"), seed), 4);
    });
  };
  for (const ChatShape& shape : {Chat(), Hot()}) {
    const Figures one = run(shape, 1);
    for (const size_t routers : {2, 8}) {
      const Figures many = run(shape, routers);
      EXPECT_GE(many.hit, one.hit - 0.04) << routers;
      EXPECT_LE(many.p50, 1.6 * one.p50) << routers;
      EXPECT_LE(many.imbalance, 1.17) << routers;
    }
  }
}

TEST(Fleet, InAnOverloadTheFleetComputesLessAndNotMore) {
  // Twice as many sessions as can be served without hits.
  const auto run = [](const char* policy) {
    return Median([&](uint64_t seed) {
      return FiguresOf(Simulate({}, MakeChat("", Hot(60), seed), Policy(policy), seed), 4);
    });
  };
  const Figures ours = run("cache_aware"), even = run("least_loaded");
  EXPECT_GE(ours.hit, 0.75);
  EXPECT_LE(ours.p99, 0.5 * even.p99);
}

TEST(Fleet, ASlowReplicaTakesItsShareOfTheLoad) {
  // Cold prompts at nine tenths of what a half as fast one and three others can serve together:
  // without it the three would have to serve more than they can.
  ChatShape cold{.sessions_per_s = 32,
                 .turns = 1,
                 .system_prompts = 10000,
                 .system_tokens = 900,
                 .user_tokens = 100};
  const auto run = [&](const char* policy) {
    return Median([&](uint64_t seed) {
      return FiguresOf(
          Simulate({.first_slower = 2}, MakeChat("", cold, seed), Policy(policy), seed), 4, {0});
    });
  };
  const Figures ours = run("cache_aware"), even = run("least_loaded");
  EXPECT_GE(ours.share, 0.09);
  EXPECT_LE(ours.share, 0.2);
  EXPECT_LE(ours.p50, even.p50);
  EXPECT_LE(ours.p99, even.p99);
}

TEST(Fleet, ABurstOnANewPrefixSpreadsThoughNoSpeedIsKnown) {
  Work burst;
  for (int i = 0; i < 40; ++i) {
    Prompt prompt{.tokens = 2064, .output_tokens = 1};
    for (uint64_t block = 1; block <= 125; ++block) prompt.blocks.push_back(block);
    for (uint64_t own = 0; own < 4; ++own) prompt.blocks.push_back(1000 + 4 * i + own);
    prompt.after = prompt.blocks;
    burst.sessions.push_back({.start_ms = 0.1 * i, .turns = {prompt}, .think_ms = {0}});
  }
  const Figures f = FiguresOf(Simulate({}, burst, Policy("cache_aware"), 1), 4);
  // One that computes the prefix has the last of 40 wait for 210 + 39 * 8 ms.
  EXPECT_LE(f.p99, 350);
  EXPECT_LE(f.p50, 280);
}

TEST(Fleet, WithoutStreamsConversationsStayAndReplicasOfOtherSpeedGetTheirShare) {
  FleetShape whole;
  whole.streams = false;
  const Figures chat = Median([&](uint64_t seed) {
    return FiguresOf(Simulate(whole, MakeChat("", Chat(), seed), Policy("cache_aware"), seed), 4);
  });
  EXPECT_GE(chat.hit, 0.80);
  EXPECT_LE(chat.p99, 140);
  whole.first_slower = 3;
  const Figures mixed = Median([&](uint64_t seed) {
    return FiguresOf(Simulate(whole, MakeChat("", Hot(), seed), Policy("cache_aware"), seed), 4,
                     {0});
  });
  EXPECT_GE(mixed.share, 0.08);
  EXPECT_LE(mixed.share, 0.22);
  EXPECT_LE(mixed.p50, 60);
  EXPECT_LE(mixed.p99, 1400);
}

TEST(Fleet, PredictionsAreRightWhenNothingElseDisturbs) {
  const Work work = MakeChat("", Chat(), 1);
  const Result result = Simulate({}, work, Policy("cache_aware"), 1);
  std::vector<double> errors;
  for (const Outcome& o : result.outcomes) errors.push_back(std::abs(o.predicted_ms - o.ttft_ms));
  std::sort(errors.begin(), errors.end());
  EXPECT_LE(errors[errors.size() / 2], 0.5);
}

}  // namespace
}  // namespace ember::sim
