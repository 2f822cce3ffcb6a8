#include <arpa/inet.h>
#include <net/if.h>

#include <algorithm>
#include <charconv>

#include "client/io/stream.h"

namespace ember::io {
namespace {

constexpr size_t kMaxNameLength = 253;  // RFC 1035, without the final dot

bool IsNameCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '.' || c == '_';
}

bool IsName(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), IsNameCharacter);
}

// A dot at the end is the root's; elsewhere there is something on both its sides.
bool HasEmptyLabel(std::string_view name) {
  return name.starts_with('.') || name.find("..") != name.npos;
}

bool IsIpv6(std::string_view host) {
  const size_t percent = host.find('%');
  if (percent != host.npos) {
    const std::string_view scope = host.substr(percent + 1);
    if (!IsName(scope) || scope.size() >= IF_NAMESIZE) return false;
  }
  in6_addr address;
  return inet_pton(AF_INET6, std::string(host.substr(0, percent)).c_str(), &address) == 1;
}

// Digits and dots only: must then be a full IPv4 address, since resolvers read "127.1" or "1" in
// ways nobody expects.
bool IsIpv4OrName(std::string_view host) {
  const std::string_view name = host.substr(0, host.size() - host.ends_with('.'));
  if (!IsName(name) || HasEmptyLabel(name) || name.size() > kMaxNameLength) return false;
  if (host.find_first_not_of("0123456789.") != host.npos) return true;
  in_addr address;
  return inet_pton(AF_INET, std::string(host).c_str(), &address) == 1;
}

Status Bad(std::string_view text, std::string_view why) {
  return InvalidError("address \"" + std::string(text.substr(0, 300)) + "\": " + std::string(why));
}

}  // namespace

std::string Endpoint::ToString() const {
  const bool bracketed = host.find(':') != host.npos;
  return (bracketed ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

Result<Endpoint> Endpoint::Parse(std::string_view text) {
  const size_t colon = text.rfind(':');
  if (colon == text.npos) return Bad(text, "a port is missing (host:port or [ipv6]:port)");
  std::string_view host = text.substr(0, colon);
  const std::string_view port_text = text.substr(colon + 1);
  if (!host.empty() && host.front() == '[') {
    if (host.back() != ']') return Bad(text, "expected [ipv6]:port");
    host = host.substr(1, host.size() - 2);
    if (!IsIpv6(host)) return Bad(text, "not an IPv6 address between the brackets");
  } else if (host.find(':') != host.npos) {
    return Bad(text, "an IPv6 address needs brackets: [address]:port");
  } else if (!IsIpv4OrName(host)) {
    return Bad(text, "the host is neither an IPv4 address nor a name");
  }
  uint16_t port = 0;
  const char* const end = port_text.data() + port_text.size();
  const auto [parsed_to, error] = std::from_chars(port_text.data(), end, port);
  if (error != std::errc() || parsed_to != end || port_text.size() > 5) {
    return Bad(text, "the port must be a number from 0 to 65535");
  }
  return Endpoint{std::string(host), port};
}

}  // namespace ember::io
