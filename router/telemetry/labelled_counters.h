// LabelledCounters: the counters of one metric with one label whose values are few and not all
// known beforehand. Finding one costs some comparisons and takes no lock; the values stay bounded:
// beyond the bound they are counted as "other". One thread.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "proto/base/metrics.h"

namespace ember::router {

class LabelledCounters {
 public:
  // Those of `known` are there at once, at 0: a rate misses the first event of a new one.
  LabelledCounters(MetricsRegistry& registry, std::string name, std::string help, std::string label,
                   std::initializer_list<std::string_view> known = {}, size_t max_values = 32);
  // Valid as long as the registry.
  Counter& At(std::string_view value);

 private:
  struct Entry {
    std::string value;
    Counter* counter;
  };
  Entry& Add(std::string_view value);

  MetricsRegistry& registry_;
  const std::string name_, help_, label_;
  const size_t max_values_;
  std::vector<Entry> entries_;  // beyond the bound the last one is "other"
};

}  // namespace ember::router
