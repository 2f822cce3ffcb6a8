// Origin: where an upstream listens: host and port, plain HTTP. A plain value, ordered and hashable
// by ToString.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

#include "proto/base/status.h"

namespace ember::http {

struct Origin {
  std::string host;  // a name or a numeric address, IPv6 without brackets
  uint16_t port = 0;

  // "10.0.0.7:8000", "[::1]:8000": also what a Host header needs.
  std::string ToString() const;
  // Takes that form, optionally as "http://host:port/". kInvalid with the reason for anything else:
  // no or an out-of-range port, IPv6 without brackets, another scheme, a path.
  static Result<Origin> Parse(std::string_view text);
  auto operator<=>(const Origin&) const = default;
};

}  // namespace ember::http
