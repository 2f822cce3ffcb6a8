#include "proto/base/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <memory>
#include <thread>

#include "proto/base/process_metrics.h"

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

TEST(ProcessMetrics, TellOfThisProcess) {
  const std::string before = ProcessMetricsText();
  EXPECT_THAT(before, HasSubstr("ember_build_info{version=\"" EMBER_VERSION "\"} 1\n"));
  const auto value = [](const std::string& text, const std::string& name) {
    const size_t at = text.find("\n" + name + " ");
    return at == text.npos ? -1 : std::stod(text.substr(at + name.size() + 2));
  };
  const std::unique_ptr<char[]> memory(new char[64u << 20]);
  std::fill_n(static_cast<volatile char*>(memory.get()), 64u << 20, 'x');
  std::FILE* file = std::fopen("/dev/null", "r");
  const std::string after = ProcessMetricsText();
  std::fclose(file);
  EXPECT_EQ(value(after, "process_open_fds"), value(before, "process_open_fds") + 1);
  EXPECT_GE(value(after, "process_resident_memory_bytes"),
            value(before, "process_resident_memory_bytes") + (60u << 20));
  EXPECT_GT(value(after, "process_virtual_memory_bytes"), 64u << 20);
  EXPECT_GT(value(after, "process_max_fds"), 3);
  EXPECT_GE(value(after, "process_cpu_seconds_total"), value(before, "process_cpu_seconds_total"));
  const double age =
      static_cast<double>(std::time(nullptr)) - value(after, "process_start_time_seconds");
  EXPECT_GT(age, -2);
  EXPECT_LT(age, 3600);
  EXPECT_EQ(value(after, "process_start_time_seconds"),
            value(before, "process_start_time_seconds"));
}

}  // namespace
}  // namespace ember
