#include "proto/base/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

namespace ember {
namespace {
using testing::HasSubstr;

TEST(Metrics, RendersThePrometheusTextFormat) {
  MetricsRegistry registry;
  registry.AddCounter("ember_misses_total", "Misses.", {{"reason", "a\"b\\c\nd"}}).Add(3);
  registry.AddGauge("ember_used_bytes", "Used.").Set(1.5);
  registry.AddCallback("ember_live", "Live.", [] { return 7.0; });
  auto& h = registry.AddHistogram("ember_get_seconds", "Gets.", {}, {0.1, 1});
  h.Observe(0.1);  // a bound counts as inside its bucket
  h.Observe(0.5);
  h.Observe(2);
  const std::string text = registry.RenderPrometheusText();
  EXPECT_THAT(text, HasSubstr("# TYPE ember_misses_total counter\n"
                              "ember_misses_total{reason=\"a\\\"b\\\\c\\nd\"} 3\n"));
  EXPECT_THAT(text, HasSubstr("ember_used_bytes 1.5\n"));
  EXPECT_THAT(text, HasSubstr("ember_live 7\n"));
  EXPECT_THAT(text, HasSubstr("ember_get_seconds_bucket{le=\"0.1\"} 1\n"
                              "ember_get_seconds_bucket{le=\"1\"} 2\n"
                              "ember_get_seconds_bucket{le=\"+Inf\"} 3\n"
                              "ember_get_seconds_sum 2.6\nember_get_seconds_count 3\n"));
}

TEST(Metrics, TheSameNameAndLabelsAreOneMetricFromAnyThread) {
  MetricsRegistry registry;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 1000; ++i) {
        registry.AddCounter("c_total", "C.", {{"k", "v"}}).Add();
        registry.AddHistogram("h", "H.").Observe(0.01);
      }
    });
  }
  for (auto& t : threads) t.join();
  EXPECT_EQ(registry.AddCounter("c_total", "C.", {{"k", "v"}}).value(), 4000u);
  EXPECT_THAT(registry.RenderPrometheusText(), HasSubstr("h_count 4000\n"));
}

}  // namespace
}  // namespace ember
