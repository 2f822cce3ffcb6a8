#include "router/estimate/prefill_fit.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

namespace ember::router {
namespace {

constexpr int kHuberRepetitions = 3, kRepetitions = 6;
// Of the scale; both are 95 % efficient when errors are normal.
constexpr double kHuber = 1.345, kTukey = 4.685;
constexpr double kMadToScale = 1.48;  // of normal errors: deviation over median absolute error
constexpr double kRelativeError = 0.1;
constexpr double kLeastErrorMs = 0.5;
constexpr double kLeastScale = 0.1;  // of the expected error: replies may be exact
constexpr double kPriorWeight = 0.02;

using Vector = std::array<double, 3>;
struct Row {
  Vector x;
  double y;
  double weight;
};

double Dot(const Vector& a, const Vector& b) { return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]; }

double ErrorOf(double ms) { return std::max(kLeastErrorMs, kRelativeError * ms); }

// Least squares with only the terms in `terms` (bit i: term i); nothing when they can't be told
// apart or one comes out negative.
std::optional<Vector> SolveWith(unsigned terms, const std::array<Vector, 3>& m, const Vector& v) {
  std::array<std::array<double, 4>, 3> a{};
  for (size_t i = 0; i < 3; ++i) {
    const bool in = (terms >> i & 1) != 0;
    for (size_t j = 0; j < 3; ++j) a[i][j] = in && (terms >> j & 1) != 0 ? m[i][j] : 0;
    if (!in) a[i][i] = m[i][i];
    a[i][3] = in ? v[i] : 0;
  }
  for (size_t i = 0; i < 3; ++i) {  // the matrix is symmetric and positive: no pivoting
    if (!(a[i][i] > 1e-12 * std::max(m[i][i], 1e-300))) return std::nullopt;
    for (size_t k = i + 1; k < 3; ++k) {
      const double f = a[k][i] / a[i][i];
      for (size_t j = i; j < 4; ++j) a[k][j] -= f * a[i][j];
    }
  }
  Vector x{};
  for (size_t i = 3; i-- > 0;) {
    double sum = a[i][3];
    for (size_t j = i + 1; j < 3; ++j) sum -= a[i][j] * x[j];
    x[i] = sum / a[i][i];
    if (x[i] < 0) return std::nullopt;
  }
  return x;
}

// The best of all subsets of terms: three terms are few enough.
Vector SolveNonNegative(const std::vector<Row>& rows) {
  std::array<Vector, 3> m{};
  Vector v{};
  for (const Row& r : rows) {
    for (size_t i = 0; i < 3; ++i) {
      for (size_t j = 0; j < 3; ++j) m[i][j] += r.weight * r.x[i] * r.x[j];
      v[i] += r.weight * r.x[i] * r.y;
    }
  }
  Vector best{};
  double least = 0;  // of x'mx - 2v'x, which is 0 for no terms at all
  for (unsigned terms = 1; terms < 8; ++terms) {
    const std::optional<Vector> x = SolveWith(terms, m, v);
    if (!x) continue;
    const double loss = -Dot(v, *x);  // at a minimum x'mx = v'x
    if (loss >= least) continue;
    least = loss;
    best = *x;
  }
  return best;
}

// Huber's weights find the bulk of the replies from anywhere, Tukey's then leave the others out.
double WeightOf(double error, int repetition) {
  if (repetition < kHuberRepetitions) return std::min(1.0, kHuber / std::max(error, 1e-12));
  const double u = error / kTukey;
  return u < 1 ? (1 - u * u) * (1 - u * u) : 0;
}

double MedianOf(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

void PrefillFit::Observe(uint64_t new_tokens, uint64_t cached_tokens, double milliseconds) {
  if (new_tokens == 0 || !(milliseconds > 0) || !std::isfinite(milliseconds)) return;
  ++observed_;
  Keep(new_tokens, cached_tokens, milliseconds);
}

void PrefillFit::ObserveBound(uint64_t new_tokens, uint64_t cached_tokens, double milliseconds) {
  if (new_tokens == 0 || !(milliseconds > 0)) return;
  if (model_.PredictMs(new_tokens, cached_tokens) <= milliseconds) return;
  Keep(new_tokens, cached_tokens, milliseconds);
}

void PrefillFit::Keep(uint64_t new_tokens, uint64_t cached_tokens, double milliseconds) {
  const auto n = static_cast<double>(new_tokens);
  const Reply reply{n, n * (static_cast<double>(cached_tokens) + n / 2), milliseconds};
  if (replies_.size() < kWindow) {
    replies_.push_back(reply);
  } else {
    replies_[kept_ % kWindow] = reply;
  }
  ++kept_;
  if (kept_ <= 2 * kEvery || kept_ % kEvery == 0) Fit();
}

void PrefillFit::Fit() {
  const size_t n = replies_.size();
  std::vector<double> errors(n);
  // Of the model before only its shape counts: the first replies may be a thousand times faster.
  for (size_t i = 0; i < n; ++i) {
    const Reply& r = replies_[i];
    errors[i] = r.ms / (model_.base_ms + model_.linear_ms * r.tokens +
                        model_.context_ms * r.context + 1e-9);
  }
  const double pace = MedianOf(errors);
  std::vector<Row> rows;
  rows.reserve(n + 3);
  for (const Reply& r : replies_) rows.push_back({{1, r.tokens, r.context}, r.ms, 0});
  for (const auto& [tokens, cached] :
       {std::pair<uint64_t, uint64_t>{16, 0}, {1024, 0}, {1024, 8192}}) {
    const double ms = pace * model_.PredictMs(tokens, cached);
    const auto t = static_cast<double>(tokens);
    const double error = ErrorOf(ms);
    rows.push_back(
        {{1, t, t * (static_cast<double>(cached) + t / 2)}, ms, kPriorWeight / (error * error)});
  }
  Vector fit = {pace * model_.base_ms, pace * model_.linear_ms, pace * model_.context_ms};
  for (int repetition = 0; repetition < kRepetitions; ++repetition) {
    for (size_t i = 0; i < n; ++i) {
      const double expected = Dot(fit, rows[i].x);
      errors[i] = std::abs(rows[i].y - expected) / ErrorOf(expected);
    }
    const double scale = std::max(kLeastScale, kMadToScale * MedianOf(errors));
    for (size_t i = 0; i < n; ++i) {
      const double error = ErrorOf(Dot(fit, rows[i].x));
      rows[i].weight = WeightOf(errors[i] / scale, repetition) / (error * error);
    }
    fit = SolveNonNegative(rows);
  }
  model_ = {.linear_ms = std::max(fit[1], 1e-6), .context_ms = fit[2], .base_ms = fit[0]};
}

}  // namespace ember::router
