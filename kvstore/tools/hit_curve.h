// HitCurve: hit ratios of one trace against capacity, for every policy and for the bound; as a
// table, as JSON, and as a part of an SVG figure.
#pragma once

#include <string>
#include <vector>

#include "kvstore/tools/request_trace.h"

namespace ember::kv {

struct HitCurve {
  struct Point {
    double percent = 0;  // capacity, of the distinct blocks
    uint32_t blocks = 0;
    double belady = 0;
    std::vector<double> policies;  // in the order of HitCurve::policies
  };

  std::string trace;
  size_t requests = 0;
  uint64_t lookups = 0;
  uint32_t distinct_blocks = 0;
  std::vector<std::string> policies;
  std::vector<Point> points;
};

HitCurve MeasureHitCurve(const RequestTrace& trace, const std::vector<double>& percents,
                         const std::vector<std::string>& policies);

// For people, with each policy's share of the bound.
std::string TableOf(const HitCurve& curve);
// One document: {"hit_ratio": ..., "traces": [...]}, ratios from 0 to 1.
std::string JsonOf(const std::vector<HitCurve>& curves);
// One panel a trace, side by side.
std::string SvgOf(const std::vector<HitCurve>& curves);

}  // namespace ember::kv
