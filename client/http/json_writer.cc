#include "client/http/json_writer.h"

#include <cstdint>

namespace ember::http {
namespace {

// The length of the UTF-8 sequence at the start of `s` (RFC 3629: no overlong forms, surrogates or
// values over U+10FFFF), 0 when there is none.
size_t Utf8Length(std::string_view s) {
  const auto at = [&](size_t i) { return static_cast<uint8_t>(s[i]); };
  const auto tail = [&](size_t i) { return i < s.size() && (at(i) & 0xC0) == 0x80; };
  const uint8_t b = at(0);
  if (b < 0x80) return 1;
  if (b >= 0xC2 && b <= 0xDF) return tail(1) ? 2 : 0;
  if (b >= 0xE0 && b <= 0xEF) {
    if (!tail(1) || !tail(2)) return 0;
    if ((b == 0xE0 && at(1) < 0xA0) || (b == 0xED && at(1) > 0x9F)) return 0;
    return 3;
  }
  if (b >= 0xF0 && b <= 0xF4) {
    if (!tail(1) || !tail(2) || !tail(3)) return 0;
    if ((b == 0xF0 && at(1) < 0x90) || (b == 0xF4 && at(1) > 0x8F)) return 0;
    return 4;
  }
  return 0;
}

void AppendAscii(std::string* out, char c) {
  static constexpr char kHex[] = "0123456789abcdef";
  switch (c) {
    case '"':
      *out += "\\\"";
      return;
    case '\\':
      *out += "\\\\";
      return;
    case '\n':
      *out += "\\n";
      return;
    case '\r':
      *out += "\\r";
      return;
    case '\t':
      *out += "\\t";
      return;
    default:
      break;
  }
  if (static_cast<uint8_t>(c) >= 0x20) {
    *out += c;
    return;
  }
  *out += "\\u00";
  *out += kHex[c >> 4];
  *out += kHex[c & 15];
}

}  // namespace

void AppendJsonString(std::string* out, std::string_view text) {
  *out += '"';
  while (!text.empty()) {
    const size_t n = Utf8Length(text);
    if (n == 0) {
      *out += "\xEF\xBF\xBD";
      text.remove_prefix(1);
      continue;
    }
    if (n == 1) {
      AppendAscii(out, text[0]);
    } else {
      out->append(text.substr(0, n));
    }
    text.remove_prefix(n);
  }
  *out += '"';
}

std::string JsonString(std::string_view text) {
  std::string out;
  out.reserve(text.size() + 2);
  AppendJsonString(&out, text);
  return out;
}

}  // namespace ember::http
