#include "client/http/origin.h"

#include <charconv>

namespace ember::http {

std::string Origin::ToString() const {
  const std::string p = std::to_string(port);
  return host.find(':') == std::string::npos ? host + ":" + p : "[" + host + "]:" + p;
}

Result<Origin> Origin::Parse(std::string_view text) {
  const auto bad = [whole = std::string(text)](const char* why) {
    return InvalidError("address \"" + whole + "\": " + why);
  };
  if (text.starts_with("http://")) text.remove_prefix(7);
  if (text.find("://") != std::string_view::npos) return bad("only http:// is spoken");
  if (text.ends_with('/')) text.remove_suffix(1);
  if (text.find_first_of("/?#@ ") != std::string_view::npos) return bad("want host:port only");
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return bad("no port");
  std::string_view host = text.substr(0, colon);
  const std::string_view digits = text.substr(colon + 1);
  if (host.starts_with('[')) {
    if (!host.ends_with(']')) return bad("no port after the bracket");
    host = host.substr(1, host.size() - 2);
    if (host.find(':') == std::string_view::npos) return bad("brackets are for IPv6");
  } else if (host.find(':') != std::string_view::npos) {
    return bad("IPv6 needs brackets: [::1]:80");
  }
  if (host.empty()) return bad("no host");
  uint16_t port = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (error != std::errc() || end != digits.data() + digits.size() || port == 0)
    return bad("port is not in 1..65535");
  return Origin{std::string(host), port};
}

}  // namespace ember::http
