// PrefillFit: one engine's prefill time learned from its replies,
//
//   T(n new tokens after c cached) = base + a*n + b*n*(c + n/2),   base, a, b >= 0.
//
// Weighted least squares over the newest replies, with the weights of Huber (1964) and then those
// of Tukey's biweight, found by repetition, so that replies which waited for something unseen do
// not count. Errors are taken to grow with the time itself. Where the replies say nothing (all of
// one length, no long context) the model before stays: it takes part as a few weak replies of its
// own. A plain value of one thread.
#pragma once

#include <cstdint>
#include <vector>

#include "proto/model/routing.h"

namespace ember::router {

class PrefillFit {
 public:
  // Not more than a sum and a store for most replies; about 5 us for each eighth.
  void Observe(uint64_t new_tokens, uint64_t cached_tokens, double milliseconds);
  // The default of PrefillModel until anything was seen.
  const PrefillModel& model() const { return model_; }
  // The prefill took at most so long. Tells something only where the model says more.
  void ObserveBound(uint64_t new_tokens, uint64_t cached_tokens, double milliseconds);
  // Something was seen at all.
  bool begun() const { return !replies_.empty(); }
  // Enough was seen to prefer it to what other engines do.
  bool known() const { return observed_ >= kEnough; }

 private:
  static constexpr uint64_t kEnough = 4;
  static constexpr size_t kWindow = 64;
  static constexpr uint64_t kEvery = 8;

  struct Reply {
    double tokens;   // n
    double context;  // n * (c + n/2)
    double ms;
  };

  void Keep(uint64_t new_tokens, uint64_t cached_tokens, double milliseconds);
  void Fit();

  std::vector<Reply> replies_;  // the newest, in no order
  uint64_t observed_ = 0;       // bounds not counted
  uint64_t kept_ = 0;           // bounds counted
  PrefillModel model_;
};

}  // namespace ember::router
