#include "router/front/fan_out.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string>

#include "router/tokenize/json_cursor.h"

namespace ember::router {
namespace {

// Engines take numbers for counts however they are written: 3, 3.0, 3e0, "3".
double CountOf(std::string_view value) {
  constexpr std::string_view kAround = "\" \t\r\n+";
  value.remove_prefix(std::min(value.find_first_not_of(kAround), value.size()));
  double count = 0;
  const auto read = std::from_chars(value.data(), value.data() + value.size(), count);
  return read.ec == std::errc::result_out_of_range ? HUGE_VAL : count;
}

}  // namespace

Status FanOutCaps::Check(std::string_view body) const {
  JsonCursor json(body);
  Status verdict;
  const auto refuse = [&](std::string_view key, size_t cap) {
    verdict = InvalidError("\"" + std::string(key) + "\" is over " + std::to_string(cap));
    return false;
  };
  json.Object([&](std::string_view raw) {
    std::string unescaped;
    const std::string_view key = MeaningOfName(raw, &unescaped);
    json.Peek();
    const size_t begin = json.at();
    if (key == "n" || key == "best_of") {
      if (!json.SkipValue()) return false;
      const std::string_view value = json.Since(begin);
      // Engines may read more than we do in others: "1_000", escapes.
      constexpr std::string_view kPlain = "\"+-.eE0123456789 \t\r\n";
      if (value.starts_with('"') && value.find_first_not_of(kPlain) != value.npos) {
        return refuse(key, choices);
      }
      return CountOf(value) <= static_cast<double>(choices) || refuse(key, choices);
    }
    if ((key == "stop" || key == "stop_sequences") && json.Peek() == '[') {
      size_t count = 0;
      return json.Array([&] { return ++count <= stops ? json.SkipValue() : refuse(key, stops); });
    }
    return json.SkipValue();
  });
  return verdict;
}

}  // namespace ember::router
