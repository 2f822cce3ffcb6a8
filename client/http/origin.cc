#include "client/http/origin.h"

#include <algorithm>
#include <charconv>

namespace ember::http {
namespace {

constexpr uint16_t kHttpsPort = 443;

// Of names and IPv4 addresses, and between brackets of IPv6 ones with their zones.
bool IsOfHosts(char c, bool in_brackets) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '.' || c == '_' || (in_brackets && (c == ':' || c == '%'));
}

std::string WithPort(const std::string& host, uint16_t port) {
  const std::string p = std::to_string(port);
  return host.find(':') == std::string::npos ? host + ":" + p : "[" + host + "]:" + p;
}

}  // namespace

std::string Origin::ToString() const { return (https ? "https://" : "") + WithPort(host, port); }

std::string Origin::HostHeader() const {
  if (!virtual_host.empty()) return virtual_host;
  if (https && port == kHttpsPort && host.find(':') == std::string::npos) return host;
  return WithPort(host, port);
}

std::string Origin::server_name() const {
  return virtual_host.empty() ? host : virtual_host.substr(0, virtual_host.find(':'));
}

Result<Origin> Origin::Parse(std::string_view text, bool any_port) {
  const auto bad = [whole = std::string(text)](const char* why) {
    return InvalidError("address \"" + whole + "\": " + why);
  };
  const bool https = text.starts_with("https://");
  if (https) text.remove_prefix(8);
  if (text.starts_with("http://")) text.remove_prefix(7);
  if (text.find("://") != std::string_view::npos) return bad("only http and https are spoken");
  if (text.ends_with('/')) text.remove_suffix(1);
  if (text.find_first_of("/?#@ ") != std::string_view::npos) return bad("want host:port only");
  size_t colon = text.rfind(':');
  const bool no_port = colon == std::string_view::npos || text.ends_with(']');
  if (no_port && !https) return bad("no port");
  if (no_port) colon = text.size();
  std::string_view host = text.substr(0, colon);
  const std::string_view digits = no_port ? "443" : text.substr(colon + 1);
  const bool in_brackets = host.starts_with('[');
  if (in_brackets) {
    if (!host.ends_with(']')) return bad("no port after the bracket");
    host = host.substr(1, host.size() - 2);
    if (host.find(':') == std::string_view::npos) return bad("brackets are for IPv6");
  } else if (host.find(':') != std::string_view::npos) {
    return bad("IPv6 needs brackets: [::1]:80");
  }
  if (host.empty()) return bad("no host");
  if (!std::all_of(host.begin(), host.end(), [&](char c) { return IsOfHosts(c, in_brackets); })) {
    return bad("no host's name or address");
  }
  uint16_t port = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (error != std::errc() || end != digits.data() + digits.size() || (port == 0 && !any_port))
    return bad("port is not in 1..65535");
  return Origin{.host = std::string(host), .port = port, .https = https};
}

}  // namespace ember::http
