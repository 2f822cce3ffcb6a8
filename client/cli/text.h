// How the command line shows quantities, tables and JSON. Pure functions, any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "client/http/json_object.h"
#include "proto/base/time.h"

namespace ember::cli {

// "312.0 MiB"
std::string ByteText(uint64_t bytes);
// "3h12m", "2m05s", "41s", "350ms"
std::string DurationText(Duration duration);
// "1,234,567"
std::string CountText(uint64_t count);
// "61%"; "-" of nothing.
std::string ShareText(uint64_t part, uint64_t whole);
// `width` cells, filled in proportion: "#####....."
std::string BarText(uint64_t part, uint64_t whole, size_t width);

// A table with a header line; numbers (cells that begin with a digit) are aligned right.
class TextTable {
 public:
  explicit TextTable(std::vector<std::string> header) : rows_{std::move(header)} {}
  void Add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  std::string ToString() const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

using http::JsonArray;
using http::JsonObject;

}  // namespace ember::cli
