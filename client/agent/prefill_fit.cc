#include "client/agent/prefill_fit.h"

#include <algorithm>

namespace ember::agent {
namespace {
constexpr double kForgetting = 0.95;
// A short prefill measures the engine's fixed cost per step, not its speed.
constexpr uint64_t kMinTokens = 16;
}  // namespace

void PrefillFit::Observe(uint64_t new_tokens, uint64_t cached_tokens, double milliseconds) {
  if (new_tokens < kMinTokens || !(milliseconds > 0)) return;
  const auto x = static_cast<double>(new_tokens);
  const double z = x * (static_cast<double>(cached_tokens) + x / 2);
  const double w = 1 / x;  // the error of a measurement grows with its length
  xx_ = kForgetting * xx_ + w * x * x;
  xz_ = kForgetting * xz_ + w * x * z;
  zz_ = kForgetting * zz_ + w * z * z;
  xy_ = kForgetting * xy_ + w * x * milliseconds;
  zy_ = kForgetting * zy_ + w * z * milliseconds;
  ++observations_;
}

PrefillModel PrefillFit::model() const {
  PrefillModel out;
  if (observations_ == 0) return out;
  const double linear_only = xy_ / xx_;
  const double determinant = xx_ * zz_ - xz_ * xz_;
  out.linear_ms = linear_only;
  out.context_ms = 0;
  // Measurements of one length only can't tell the two terms apart.
  if (determinant > 1e-3 * xx_ * zz_) {
    const double a = (xy_ * zz_ - zy_ * xz_) / determinant;
    const double b = (zy_ * xx_ - xy_ * xz_) / determinant;
    if (a > 0 && b > 0) {
      out.linear_ms = a;
      out.context_ms = b;
    }
  }
  out.linear_ms = std::max(out.linear_ms, 1e-4);
  return out;
}

}  // namespace ember::agent
