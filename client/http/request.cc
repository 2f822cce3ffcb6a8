#include "client/http/request.h"

#include <algorithm>

namespace ember::http {
namespace {

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// application/x-www-form-urlencoded.
std::string Decode(std::string_view s) {
  std::string spaced(s);
  std::replace(spaced.begin(), spaced.end(), '+', ' ');
  return PercentDecoded(spaced);
}

// Where the host of an absolute-form target begins; 0: it is none.
size_t HostBegin(std::string_view target) {
  const std::string_view scheme = target.substr(0, target.find("://"));
  const bool absolute = EqualNoCase(scheme, "http") || EqualNoCase(scheme, "https");
  return absolute && scheme.size() < target.size() ? scheme.size() + 3 : 0;
}

// "http://host/path?x" gives "/path?x"; everything else is returned as it is.
std::string_view OriginForm(std::string_view target) {
  const size_t host = HostBegin(target);
  if (host == 0) return target;
  const size_t path = target.find_first_of("/?", host);
  return path == std::string_view::npos ? "/" : target.substr(path);
}

}  // namespace

std::string PercentDecoded(std::string_view s) {
  std::string out;
  out.reserve(s.size());
  for (size_t i = 0; i < s.size(); ++i) {
    if (s[i] == '%' && i + 2 < s.size() && HexDigit(s[i + 1]) >= 0 && HexDigit(s[i + 2]) >= 0) {
      out += static_cast<char>(HexDigit(s[i + 1]) * 16 + HexDigit(s[i + 2]));
      i += 2;
    } else {
      out += s[i];
    }
  }
  return out;
}

std::optional<std::string_view> HostOfTarget(std::string_view target) {
  const size_t host = HostBegin(target);
  if (host == 0) return std::nullopt;
  return target.substr(host, target.find_first_of("/?", host) - host);
}

std::optional<std::string_view> Request::QueryParam(std::string_view name) const {
  for (const auto& [key, value] : query) {
    if (key == name) return value;
  }
  return std::nullopt;
}

void Request::SetTarget(std::string_view new_target) {
  target = OriginForm(new_target);
  if (target.starts_with('?')) target.insert(0, "/");
  const size_t mark = target.find('?');
  path = target.substr(0, mark);
  query.clear();
  if (mark == std::string::npos) return;
  std::string_view rest = std::string_view(target).substr(mark + 1);
  rest = rest.substr(0, rest.find('#'));
  while (!rest.empty()) {
    const size_t amp = rest.find('&');
    const std::string_view pair = rest.substr(0, amp);
    const size_t equals = pair.find('=');
    if (!pair.empty()) {
      query.emplace_back(Decode(pair.substr(0, equals)),
                         equals == std::string_view::npos ? "" : Decode(pair.substr(equals + 1)));
    }
    rest.remove_prefix(amp == std::string_view::npos ? rest.size() : amp + 1);
  }
}

}  // namespace ember::http
