#include "client/cli/bench_figure.h"

#include <fmt/format.h>

#include <chrono>
#include <cstdio>

#include "client/cli/text.h"

namespace ember::cli {

double BenchNow() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void PrintFigures(const std::vector<BenchFigure>& figures, bool json) {
  TextTable table({"FIGURE", "VALUE", "UNIT"});
  for (const BenchFigure& figure : figures) {
    table.Add({figure.name, fmt::format("{:.3f}", figure.value), figure.unit});
    if (!json) continue;
    JsonObject object;
    object.Add("metric", figure.name).Add("value", figure.value).Add("unit", figure.unit);
    std::printf("%s\n", object.ToString().c_str());
  }
  if (!json) std::printf("%s", table.ToString().c_str());
}

}  // namespace ember::cli
