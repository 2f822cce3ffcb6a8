// UsualWait: how long requests wait until their replies begin, by whether they are streamed and how
// large they are: what a wait has to be held against before it says that a replica hangs.
// A plain value of one thread.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>

namespace ember::router {

class UsualWait {
 public:
  // A reply, a stream or not, began `ms` after a request with a body of so many bytes was sent.
  void Observe(bool stream, size_t bytes, double ms) {
    Mean& mean = means_[stream ? 1 : 0];
    const double weight = mean.ms == 0 ? 1 : kNewest;
    mean.ms += weight * (ms - mean.ms);
    mean.bytes += weight * (static_cast<double>(bytes) - mean.bytes);
  }
  // Of such a request, in ms: a larger one may take as much longer. 0: none was seen.
  double Of(bool stream, size_t bytes) const {
    const Mean& mean = means_[stream ? 1 : 0];
    return mean.ms * std::max(1.0, static_cast<double>(bytes) / std::max(1.0, mean.bytes));
  }

 private:
  static constexpr double kNewest = 0.1;  // weight in the moving averages
  struct Mean {
    double ms = 0, bytes = 0;
  };
  std::array<Mean, 2> means_;
};

}  // namespace ember::router
