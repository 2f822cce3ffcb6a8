#include "proto/base/metrics.h"

#include <fmt/format.h>

#include <algorithm>

#include "proto/base/check.h"

namespace ember {
namespace {

std::string Escape(const std::string& value) {
  std::string out;
  for (char c : value) {
    if (c == '\\' || c == '"') out.push_back('\\');
    if (c == '\n') {
      out += "\\n";
    } else {
      out.push_back(c);
    }
  }
  return out;
}

// name="value",... without braces; also the key under which the registry keeps the metric.
std::string Render(const MetricLabels& labels) {
  std::string out;
  for (const auto& [name, value] : labels) {
    if (!out.empty()) out.push_back(',');
    out += fmt::format("{}=\"{}\"", name, Escape(value));
  }
  return out;
}

std::string Braced(const std::string& labels) { return labels.empty() ? "" : "{" + labels + "}"; }

void RenderHistogram(const std::string& name, const std::string& labels, const Histogram& h,
                     std::string* out) {
  const std::string prefix = labels.empty() ? "" : labels + ",";
  for (size_t i = 0; i <= h.bounds().size(); ++i) {
    const std::string le = i < h.bounds().size() ? fmt::format("{:g}", h.bounds()[i]) : "+Inf";
    *out += fmt::format("{}_bucket{{{}le=\"{}\"}} {}\n", name, prefix, le, h.CumulativeCount(i));
  }
  *out += fmt::format("{}_sum{} {}\n", name, Braced(labels), h.sum());
  *out +=
      fmt::format("{}_count{} {}\n", name, Braced(labels), h.CumulativeCount(h.bounds().size()));
}

}  // namespace

Histogram::Histogram(std::vector<double> bounds)
    : bounds_(std::move(bounds)), counts_(new std::atomic<uint64_t>[bounds_.size() + 1]()) {
  EMBER_CHECK(std::is_sorted(bounds_.begin(), bounds_.end()), "histogram bounds must ascend");
}

void Histogram::Observe(double v) {
  const size_t i = std::lower_bound(bounds_.begin(), bounds_.end(), v) - bounds_.begin();
  counts_[i].fetch_add(1, std::memory_order_relaxed);
  sum_.fetch_add(v, std::memory_order_relaxed);
}

uint64_t Histogram::CumulativeCount(size_t i) const {
  uint64_t n = 0;
  for (size_t k = 0; k <= i; ++k) n += counts_[k].load(std::memory_order_relaxed);
  return n;
}

std::vector<double> Histogram::LatencySeconds() {
  return {0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1,
          0.25,   0.5,     1,      2.5,   5,      10,    25,   50,    100};
}

MetricsRegistry::Family& MetricsRegistry::FamilyOf(const std::string& name, const std::string& help,
                                                   const char* type) {
  Family& family = families_[name];
  EMBER_CHECK(family.type.empty() || family.type == type, "a metric name has one type");
  family.type = type;
  family.help = help;
  return family;
}

Counter& MetricsRegistry::AddCounter(const std::string& name, const std::string& help,
                                     MetricLabels labels) {
  std::lock_guard lock(mutex_);
  auto& slot = FamilyOf(name, help, "counter").counters[Render(labels)];
  if (!slot) slot = std::make_unique<Counter>();
  return *slot;
}

Gauge& MetricsRegistry::AddGauge(const std::string& name, const std::string& help,
                                 MetricLabels labels) {
  std::lock_guard lock(mutex_);
  auto& slot = FamilyOf(name, help, "gauge").gauges[Render(labels)];
  if (!slot) slot = std::make_unique<Gauge>();
  return *slot;
}

Histogram& MetricsRegistry::AddHistogram(const std::string& name, const std::string& help,
                                         MetricLabels labels, std::vector<double> bounds) {
  std::lock_guard lock(mutex_);
  auto& slot = FamilyOf(name, help, "histogram").histograms[Render(labels)];
  if (!slot) slot = std::make_unique<Histogram>(std::move(bounds));
  return *slot;
}

void MetricsRegistry::AddCallback(const std::string& name, const std::string& help,
                                  std::function<double()> read) {
  std::lock_guard lock(mutex_);
  FamilyOf(name, help, "gauge").read = std::move(read);
}

std::string MetricsRegistry::RenderPrometheusText() const {
  std::lock_guard lock(mutex_);
  std::string out;
  for (const auto& [name, family] : families_) {
    out += fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, family.help, name, family.type);
    if (family.read) out += fmt::format("{} {}\n", name, family.read());
    for (const auto& [labels, counter] : family.counters) {
      out += fmt::format("{}{} {}\n", name, Braced(labels), counter->value());
    }
    for (const auto& [labels, gauge] : family.gauges) {
      out += fmt::format("{}{} {}\n", name, Braced(labels), gauge->value());
    }
    for (const auto& [labels, histogram] : family.histograms) {
      RenderHistogram(name, labels, *histogram, &out);
    }
  }
  return out;
}

}  // namespace ember
