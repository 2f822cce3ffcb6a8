// QuantileWindow: quantiles of the newest values. A plain value of one thread.
#pragma once

#include <cstddef>
#include <vector>

namespace ember::router {

class QuantileWindow {
 public:
  explicit QuantileWindow(size_t capacity) : capacity_(capacity) {}

  void Add(double value);
  // The smallest value that at least this share (0..1) of the window does not exceed; 0 when empty.
  double Quantile(double share) const;
  size_t size() const { return values_.size(); }

 private:
  const size_t capacity_;
  std::vector<double> values_;
  size_t next_ = 0;  // the oldest, once the window is full
};

}  // namespace ember::router
