#include "kvstore/tools/hit_curve.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "client/http/json_writer.h"
#include "kvstore/tools/trace_replay.h"

namespace ember::kv {

HitCurve MeasureHitCurve(const RequestTrace& trace, const std::vector<double>& percents,
                         const std::vector<std::string>& policies) {
  HitCurve curve{.trace = trace.name,
                 .requests = trace.requests.size(),
                 .lookups = trace.lookups,
                 .distinct_blocks = trace.distinct_blocks,
                 .policies = policies,
                 .points = {}};
  for (double percent : percents) {
    HitCurve::Point point{.percent = percent, .policies = {}};
    point.blocks = std::max(1u, static_cast<uint32_t>(trace.distinct_blocks * percent / 100));
    point.belady = BeladyHitRatio(trace, point.blocks);
    for (const std::string& policy : policies) {
      point.policies.push_back(ReplayHitRatio(trace, policy, point.blocks));
    }
    curve.points.push_back(std::move(point));
  }
  return curve;
}

std::string TableOf(const HitCurve& curve) {
  std::string out = fmt::format("{}: {} requests, {} block lookups, {} distinct blocks\n",
                                curve.trace, curve.requests, curve.lookups, curve.distinct_blocks);
  out += fmt::format("{:>9}{:>10}{:>9}", "capacity", "blocks", "belady");
  for (const std::string& policy : curve.policies) out += fmt::format("{:>17}", policy);
  out += "\n";
  for (const HitCurve::Point& point : curve.points) {
    out += fmt::format("{:>8g}%{:>10}{:>9.4f}", point.percent, point.blocks, point.belady);
    for (double ratio : point.policies) {
      const double share = point.belady > 0 ? ratio / point.belady : 0;
      out += fmt::format("{:>9.4f} ({:>4.1f}%)", ratio, 100 * share);
    }
    out += "\n";
  }
  return out;
}

std::string JsonOf(const std::vector<HitCurve>& curves) {
  std::string out =
      "{\"hit_ratio\": \"block lookups in the unbroken prefix found / all block lookups\", "
      "\"traces\": [";
  for (size_t i = 0; i < curves.size(); ++i) {
    const HitCurve& curve = curves[i];
    out += fmt::format(
        "{}{{\"trace\": {}, \"requests\": {}, \"lookups\": {}, \"distinct_blocks\": {}, "
        "\"points\": [",
        i > 0 ? ", " : "", http::JsonString(curve.trace), curve.requests, curve.lookups,
        curve.distinct_blocks);
    for (size_t j = 0; j < curve.points.size(); ++j) {
      const HitCurve::Point& point = curve.points[j];
      out +=
          fmt::format("{}{{\"capacity_percent\": {:g}, \"capacity_blocks\": {}, \"belady\": {:.6f}",
                      j > 0 ? ", " : "", point.percent, point.blocks, point.belady);
      for (size_t k = 0; k < curve.policies.size(); ++k) {
        out += fmt::format(", {}: {:.6f}", http::JsonString(curve.policies[k]), point.policies[k]);
      }
      out += "}";
    }
    out += "]}";
  }
  return out + "]}\n";
}

namespace {

constexpr double kWidth = 420, kHeight = 300;                         // of a panel's axes
constexpr double kLeft = 56, kTop = 44, kStride = 500, kBottom = 96;  // around them
constexpr std::string_view kColours[] = {"#888888", "#d98c21", "#1f6fb4", "#2e8b57", "#8a4fbf"};

// A logarithmic axis of capacity, a linear one of ratios up to `top`.
class Panel {
 public:
  Panel(const HitCurve& curve, size_t number) : curve_(curve), left_(kLeft + kStride * number) {
    for (const HitCurve::Point& point : curve.points) {
      low_ = std::min(low_, point.percent);
      top_ = std::max(top_, point.belady);
    }
    top_ = std::ceil(top_ * 10) / 10;
  }

  std::string Draw() const {
    std::string out = Text(left_ + kWidth / 2, kTop - 16, "middle", Escaped(curve_.trace));
    for (double ratio = 0; ratio <= top_ + 1e-9; ratio += 0.1) {
      out += Line(left_, Y(ratio), left_ + kWidth, Y(ratio));
      out += Text(left_ - 8, Y(ratio) + 4, "end", fmt::format("{:.1f}", ratio));
    }
    for (const HitCurve::Point& point : curve_.points) {
      out += Line(X(point.percent), kTop, X(point.percent), kTop + kHeight);
      out +=
          Text(X(point.percent), kTop + kHeight + 18, "middle", fmt::format("{:g}", point.percent));
    }
    out += Text(left_ + kWidth / 2, kTop + kHeight + 38, "middle",
                "capacity, % of the distinct blocks");
    out += Curve("Belady's bound", 0, [](const HitCurve::Point& p) { return p.belady; });
    for (size_t i = 0; i < curve_.policies.size(); ++i) {
      out +=
          Curve(curve_.policies[i], i + 1, [i](const HitCurve::Point& p) { return p.policies[i]; });
    }
    return out;
  }

 private:
  double X(double percent) const {
    const double span = std::max(std::log(100 / low_), 1e-9);
    return left_ + kWidth * std::log(percent / low_) / span;
  }
  double Y(double ratio) const { return kTop + kHeight * (1 - ratio / std::max(top_, 1e-9)); }

  template <typename RatioOf>
  std::string Curve(const std::string& name, size_t number, RatioOf ratio_of) const {
    const std::string_view colour = kColours[number % std::size(kColours)];
    const char* dashes = number == 0 ? " stroke-dasharray=\"5 4\"" : "";
    std::string points;
    for (const HitCurve::Point& point : curve_.points) {
      points += fmt::format("{:.1f},{:.1f} ", X(point.percent), Y(ratio_of(point)));
    }
    const double x = left_ + 110.0 * static_cast<double>(number), y = kTop + kHeight + 62;
    return fmt::format(
               "<polyline fill=\"none\" stroke=\"{0}\" stroke-width=\"2\"{1} points=\"{2}\"/>\n"
               "<line x1=\"{3:.1f}\" y1=\"{4:.1f}\" x2=\"{5:.1f}\" y2=\"{4:.1f}\" stroke=\"{0}\" "
               "stroke-width=\"2\"{1}/>\n",
               colour, dashes, points, x, y - 4, x + 22) +
           Text(x + 27, y, "start", Escaped(name));
  }
  static std::string Line(double x1, double y1, double x2, double y2) {
    return fmt::format(
        "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"#dddddd\"/>\n", x1,
        y1, x2, y2);
  }
  static std::string Text(double x, double y, std::string_view anchor, std::string_view text) {
    return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", x, y,
                       anchor, text);
  }
  static std::string Escaped(std::string_view text) {
    std::string out;
    for (char c : text) {
      out += c == '<' ? "&lt;" : c == '&' ? "&amp;" : std::string(1, c);
    }
    return out;
  }

  const HitCurve& curve_;
  const double left_;
  double low_ = 100;
  double top_ = 0;
};

}  // namespace

std::string SvgOf(const std::vector<HitCurve>& curves) {
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} "
      "{1}\" "
      "font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" "
      "fill=\"white\"/>\n",
      kStride * static_cast<double>(curves.size()), kTop + kHeight + kBottom);
  for (size_t i = 0; i < curves.size(); ++i) out += Panel(curves[i], i).Draw();
  return out + "</svg>\n";
}

}  // namespace ember::kv
