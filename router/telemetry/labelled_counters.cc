#include "router/telemetry/labelled_counters.h"

namespace ember::router {

LabelledCounters::LabelledCounters(MetricsRegistry& registry, std::string name, std::string help,
                                   std::string label, std::initializer_list<std::string_view> known,
                                   size_t max_values)
    : registry_(registry),
      name_(std::move(name)),
      help_(std::move(help)),
      label_(std::move(label)),
      max_values_(max_values) {
  for (const std::string_view value : known) Add(value);
}

Counter& LabelledCounters::At(std::string_view value) {
  for (const Entry& e : entries_) {
    if (e.value == value) return *e.counter;
  }
  if (entries_.size() < max_values_) return *Add(value).counter;
  return entries_.size() == max_values_ ? *Add("other").counter : *entries_.back().counter;
}

LabelledCounters::Entry& LabelledCounters::Add(std::string_view value) {
  return entries_.emplace_back(std::string(value),
                               &registry_.AddCounter(name_, help_, {{label_, std::string(value)}}));
}

}  // namespace ember::router
