#include "router/estimate/prefill_fit.h"

#include <gtest/gtest.h>

#include <cmath>

#include "proto/base/random.h"
#include "router/estimate/quantile_window.h"

namespace ember::router {
namespace {

double Uniform(SeededRandom& random) { return static_cast<double>(random.Next() >> 11) / 0x1p53; }

// Median relative error over lengths that a fleet sees.
double WorstError(const PrefillModel& fit, const PrefillModel& truth) {
  double worst = 0;
  for (const uint64_t n : {32, 200, 1000, 4000}) {
    for (const uint64_t c : {0, 1000, 8000}) {
      const double t = truth.PredictMs(n, c);
      worst = std::max(worst, std::abs(fit.PredictMs(n, c) - t) / t);
    }
  }
  return worst;
}

struct Engine {
  PrefillModel truth;
  double noise = 0;     // relative
  double outliers = 0;  // share of replies that took up to 20 times as long
};

PrefillFit Learn(const Engine& engine, int replies, uint64_t seed, PrefillFit fit = {}) {
  SeededRandom random(seed);
  for (int i = 0; i < replies; ++i) {
    const uint64_t n = 16 + random.Next() % 3000, c = random.Next() % 6000;
    double ms = engine.truth.PredictMs(n, c) * (1 + engine.noise * (2 * Uniform(random) - 1));
    if (Uniform(random) < engine.outliers) ms *= 2 + 18 * Uniform(random);
    fit.Observe(n, c, ms);
  }
  return fit;
}

constexpr PrefillModel kFast{.linear_ms = 0.1, .context_ms = 2e-5, .base_ms = 2};

TEST(PrefillFit, FindsTheEnginesOwnTermsThoughItsGuessWasFarOff) {
  const PrefillFit fit = Learn({kFast}, 40, 1);
  EXPECT_TRUE(fit.known());
  EXPECT_NEAR(fit.model().linear_ms, 0.1, 0.005);
  EXPECT_NEAR(fit.model().context_ms, 2e-5, 1e-6);
  EXPECT_NEAR(fit.model().base_ms, 2, 0.5);
}

TEST(PrefillFit, FourRepliesAreEnoughForHalfTheTruth) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const PrefillFit fit = Learn({kFast, 0.05}, 4, seed);
    ASSERT_TRUE(fit.known());
    EXPECT_NEAR(fit.model().PredictMs(1000, 1000), kFast.PredictMs(1000, 1000),
                0.5 * kFast.PredictMs(1000, 1000));
  }
}

TEST(PrefillFit, OutliersHardlyCount) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    EXPECT_LT(WorstError(Learn({kFast, 0.05, 0.2}, 200, seed).model(), kFast), 0.2) << seed;
  }
}

// A whole reply's time is its answer's as well: it says how long a prefill took at most.
TEST(PrefillFit, ABoundOnlyMakesAPredictionShorter) {
  PrefillFit fit = Learn({kFast}, 64, 1);
  const double before = fit.model().PredictMs(1000, 0);
  for (int i = 0; i < 200; ++i) fit.ObserveBound(1000, 0, before * (2 + i % 20));
  EXPECT_EQ(fit.model().PredictMs(1000, 0), before);
  for (int i = 0; i < 200; ++i) fit.ObserveBound(1000, 0, before / 3);
  EXPECT_NEAR(fit.model().PredictMs(1000, 0), before / 3, before / 10);
}

TEST(PrefillFit, FollowsAnEngineThatChanges) {
  const PrefillModel slow{.linear_ms = 0.3, .context_ms = 5e-5, .base_ms = 2};
  const PrefillFit fit = Learn({slow, 0.05}, 80, 2, Learn({kFast, 0.05}, 1000, 1));
  EXPECT_LT(WorstError(fit.model(), slow), 0.2);
}

TEST(PrefillFit, WhatRepliesNoLongerSayIsNotForgotten) {
  PrefillFit fit = Learn({kFast, 0.02}, 200, 1);
  for (int i = 0; i < 1000; ++i) fit.Observe(100, 0, kFast.PredictMs(100, 0));
  EXPECT_LT(WorstError(fit.model(), kFast), 0.35);
}

TEST(PrefillFit, RepliesOfOneLengthDoNotMakeTokensFree) {
  // All prompts equal and none cached: whether each costs by the token or by the request can't be
  // seen. Taken for the latter, a prefix that is held would be worth nothing.
  for (int replies : {1, 4, 64}) {
    PrefillFit fit;
    for (int i = 0; i < replies; ++i) fit.Observe(320, 0, 2.56);
    EXPECT_NEAR(fit.model().PredictMs(160, 320), 1.28, 0.1) << replies;
    EXPECT_NEAR(fit.model().PredictMs(640, 0), 5.12, 0.2) << replies;
  }
}

TEST(PrefillFit, NeverANegativeTermAndNothingThatIsNoMeasurement) {
  SeededRandom random(4);
  PrefillFit fit;
  fit.Observe(100, 0, -1);
  fit.Observe(100, 0, std::nan(""));
  fit.Observe(0, 100, 5);
  EXPECT_FALSE(fit.known());
  for (int i = 0; i < 2000; ++i) {
    fit.Observe(1 + random.Next() % 100000, random.Next() % 100000, 1000 * Uniform(random));
    const PrefillModel& m = fit.model();
    ASSERT_TRUE(m.linear_ms > 0 && m.context_ms >= 0 && m.base_ms >= 0 &&
                std::isfinite(m.PredictMs(1000, 1000)));
  }
}

TEST(QuantileWindow, ForgetsTheOldestAndGivesQuantilesOfTheRest) {
  QuantileWindow window(10);
  EXPECT_EQ(window.Quantile(0.5), 0);
  for (int i = 1; i <= 15; ++i) window.Add(i);
  EXPECT_EQ(window.Quantile(0), 6);
  EXPECT_EQ(window.Quantile(0.5), 10);
  EXPECT_EQ(window.Quantile(0.9), 14);
  EXPECT_EQ(window.Quantile(1), 15);
}

}  // namespace
}  // namespace ember::router
