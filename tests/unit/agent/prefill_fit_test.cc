#include "client/agent/prefill_fit.h"

#include <gtest/gtest.h>

namespace ember::agent {
namespace {

double Truth(double n, double c) { return 4.0 * n + 0.001 * n * (c + n / 2); }

TEST(PrefillFitTest, FindsBothTermsOfTheCost) {
  PrefillFit fit;
  for (const uint64_t n : {100, 800, 200, 1500, 60}) {
    for (const uint64_t c : {0, 1000}) {
      fit.Observe(n, c, Truth(static_cast<double>(n), static_cast<double>(c)));
    }
  }
  EXPECT_NEAR(fit.model().linear_ms, 4.0, 1e-6);
  EXPECT_NEAR(fit.model().context_ms, 0.001, 1e-9);
}

TEST(PrefillFitTest, OneMeasurementGivesTheLinearTerm) {
  PrefillFit fit;
  fit.Observe(1000, 0, 5000);
  EXPECT_NEAR(fit.model().PredictMs(500, 0), 2500, 1);
}

TEST(PrefillFitTest, FollowsAnEngineThatBecomesSlower) {
  PrefillFit fit;
  for (int i = 0; i < 50; ++i) fit.Observe(1000, 0, 2000);
  for (int i = 0; i < 100; ++i) fit.Observe(1000, 0, 6000);
  EXPECT_NEAR(fit.model().PredictMs(1000, 0), 6000, 100);
}

TEST(PrefillFitTest, NoNoiseMakesItNegative) {
  PrefillFit fit;
  fit.Observe(1000, 0, 1000);
  fit.Observe(1000, 4000, 900);
  fit.Observe(16, 0, 500);
  fit.Observe(50, 0, -1);
  fit.Observe(1, 0, 15);
  for (const uint64_t n : {1, 100, 10000}) EXPECT_GT(fit.model().PredictMs(n, n), 0);
}

}  // namespace
}  // namespace ember::agent
