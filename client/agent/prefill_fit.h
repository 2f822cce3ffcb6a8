// PrefillFit: the engine's prefill time as a function of new and cached tokens, learned from its
// replies. Least squares on T(n, c) = a·n + b·n·(c + n/2) with exponential forgetting, so that it
// follows an engine whose neighbours come and go.
// A plain value of one thread.
#pragma once

#include <cstdint>

#include "proto/model/routing.h"

namespace ember::agent {

class PrefillFit {
 public:
  void Observe(uint64_t new_tokens, uint64_t cached_tokens, double milliseconds);
  // PrefillModel's defaults until something worth fitting was seen.
  PrefillModel model() const;

 private:
  // Weighted sums of x·xᵀ and x·y for x = (n, n·(c + n/2)).
  double xx_ = 0, xz_ = 0, zz_ = 0, xy_ = 0, zy_ = 0;
  uint64_t observations_ = 0;
};

}  // namespace ember::agent
