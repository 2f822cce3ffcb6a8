// Origin: where an upstream listens, and whether it speaks TLS. A plain value, ordered.
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
  bool https = false;
  // What the upstream calls itself where it listens for several: goes into Host, and under TLS into
  // the server name, which its certificate must have. Empty: `host`.
  std::string virtual_host = {};

  // "10.0.0.7:8000", "[::1]:8000", "https://engine.example:443".
  std::string ToString() const;
  // The Host header that requests need there.
  std::string HostHeader() const;
  // Under TLS: whom to ask for, and whose certificate it must have.
  std::string server_name() const;
  // Takes the forms of ToString, also as "http://host:port/"; https without a port is 443. kInvalid
  // with the reason for anything else: no or an out-of-range port, IPv6 without brackets, another
  // scheme, a path. `any_port`: 0 is a port, too: to listen on, not to connect to.
  static Result<Origin> Parse(std::string_view text, bool any_port = false);
  auto operator<=>(const Origin&) const = default;
};

}  // namespace ember::http
