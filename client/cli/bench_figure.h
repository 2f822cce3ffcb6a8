// BenchFigure: one result of a benchmark, and how the command line shows them.
#pragma once

#include <string>
#include <vector>

namespace ember::cli {

struct BenchFigure {
  std::string name;
  std::string unit;
  double value = 0;
};

// Seconds of the monotonic clock.
double BenchNow();

// A table, or with `json` one object a line: metric, value, unit. To standard output.
void PrintFigures(const std::vector<BenchFigure>& figures, bool json);

}  // namespace ember::cli
