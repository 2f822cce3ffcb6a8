#include "client/cli/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace ember::cli {

std::string ByteText(uint64_t bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  for (; value >= 1024 && unit + 1 < std::size(kUnits); ++unit) value /= 1024;
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.1f} {}", value, kUnits[unit]);
}

std::string DurationText(Duration duration) {
  const auto ms = std::chrono::duration_cast<milliseconds>(duration).count();
  const auto s = ms / 1000;
  if (s == 0) return fmt::format("{}ms", ms);
  if (s < 60) return fmt::format("{}s", s);
  if (s < 3600) return fmt::format("{}m{:02}s", s / 60, s % 60);
  return fmt::format("{}h{:02}m", s / 3600, s / 60 % 60);
}

std::string CountText(uint64_t count) {
  std::string digits = std::to_string(count);
  for (int at = static_cast<int>(digits.size()) - 3; at > 0; at -= 3) digits.insert(at, ",");
  return digits;
}

std::string ShareText(uint64_t part, uint64_t whole) {
  if (whole == 0) return "-";
  return fmt::format("{:.0f}%", 100.0 * static_cast<double>(part) / static_cast<double>(whole));
}

std::string BarText(uint64_t part, uint64_t whole, size_t width) {
  const double share =
      whole == 0 ? 0 : std::min(1.0, static_cast<double>(part) / static_cast<double>(whole));
  const auto filled = static_cast<size_t>(std::lround(share * static_cast<double>(width)));
  return std::string(filled, '#') + std::string(width - filled, '.');
}

std::string TextTable::ToString() const {
  std::vector<size_t> widths;
  for (const auto& row : rows_) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string out;
  for (const auto& row : rows_) {
    std::string line = " ";
    for (size_t i = 0; i < row.size(); ++i) {
      const bool number = !row[i].empty() && std::isdigit(static_cast<unsigned char>(row[i][0]));
      line += number ? fmt::format(" {:>{}}", row[i], widths[i])
                     : fmt::format(" {:<{}}", row[i], widths[i]);
      line += " ";
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out;
}

}  // namespace ember::cli
