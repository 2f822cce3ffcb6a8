#include "router/estimate/quantile_window.h"

#include <algorithm>
#include <cmath>

namespace ember::router {

void QuantileWindow::Add(double value) {
  if (values_.size() < capacity_) {
    values_.push_back(value);
    return;
  }
  values_[next_] = value;
  next_ = (next_ + 1) % capacity_;
}

double QuantileWindow::Quantile(double share) const {
  if (values_.empty()) return 0;
  const auto size = static_cast<double>(values_.size());
  const auto rank = static_cast<size_t>(std::clamp(std::ceil(share * size), 1.0, size)) - 1;
  std::vector<double> values = values_;
  std::nth_element(values.begin(), values.begin() + static_cast<ptrdiff_t>(rank), values.end());
  return values[rank];
}

}  // namespace ember::router
