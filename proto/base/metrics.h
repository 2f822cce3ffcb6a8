// Counters, gauges and histograms in the Prometheus text format 0.0.4.
//
// Make a metric once at start through MetricsRegistry, keep the reference, and update it from any
// thread without a lock. The registry owns the metrics and must outlive their users.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace ember {

// {{"reason","evicted"},...}; values are escaped on output.
using MetricLabels = std::vector<std::pair<std::string, std::string>>;

class Counter {
 public:
  void Add(uint64_t n = 1) { value_.fetch_add(n, std::memory_order_relaxed); }
  uint64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> value_{0};
};

class Gauge {
 public:
  void Set(double v) { value_.store(v, std::memory_order_relaxed); }
  void Add(double v) { value_.fetch_add(v, std::memory_order_relaxed); }
  double value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<double> value_{0};
};

class Histogram {
 public:
  explicit Histogram(std::vector<double> bounds);
  void Observe(double v);
  // Cumulative count of bucket i (bounds().size() is +Inf).
  uint64_t CumulativeCount(size_t i) const;
  double sum() const { return sum_.load(std::memory_order_relaxed); }
  const std::vector<double>& bounds() const { return bounds_; }
  // 0.1 ms to 100 s in a 1-2.5-5 series, in seconds.
  static std::vector<double> LatencySeconds();

 private:
  const std::vector<double> bounds_;
  std::unique_ptr<std::atomic<uint64_t>[]> counts_;
  std::atomic<double> sum_{0};
};

class MetricsRegistry {
 public:
  // `name` in Prometheus style with unit suffix (ember_store_get_seconds). Asking again for the
  // same name and labels gives the same metric.
  Counter& AddCounter(const std::string& name, const std::string& help, MetricLabels labels = {});
  Gauge& AddGauge(const std::string& name, const std::string& help, MetricLabels labels = {});
  Histogram& AddHistogram(const std::string& name, const std::string& help,
                          MetricLabels labels = {},
                          std::vector<double> bounds = Histogram::LatencySeconds());
  // A gauge read at scrape time; `read` must be callable from any thread.
  void AddCallback(const std::string& name, const std::string& help, std::function<double()> read);

  // The whole registry as a scrape body.
  std::string RenderPrometheusText() const;

 private:
  struct Family {
    std::string help;
    std::string type;
    std::map<std::string, std::unique_ptr<Counter>> counters;
    std::map<std::string, std::unique_ptr<Gauge>> gauges;
    std::map<std::string, std::unique_ptr<Histogram>> histograms;
    std::function<double()> read;
  };
  Family& FamilyOf(const std::string& name, const std::string& help, const char* type);

  mutable std::mutex mutex_;
  std::map<std::string, Family> families_;
};

}  // namespace ember
