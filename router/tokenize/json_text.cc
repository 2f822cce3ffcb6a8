#include "router/tokenize/json_text.h"

#include <algorithm>
#include <cstdint>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace ember::router {
namespace {

// The next quote or backslash at or after `from`, or, with `kBraces`, the next quote, bracket or
// brace; else the end.
template <bool kBraces>
size_t NextSpecial(std::string_view json, size_t from) {
  const char* p = json.data();
  const size_t end = json.size();
#if defined(__SSE2__)
  const __m128i quote = _mm_set1_epi8('"'), escape = _mm_set1_epi8('\\');
  const __m128i open = _mm_set1_epi8('{'), close = _mm_set1_epi8('}'),
                to_brace = _mm_set1_epi8(' ');
  const auto specials = [&](size_t at) {
    const __m128i v = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p + at));
    const __m128i quotes = _mm_cmpeq_epi8(v, quote);
    if (!kBraces) return _mm_or_si128(quotes, _mm_cmpeq_epi8(v, escape));
    const __m128i b = _mm_or_si128(v, to_brace);  // '[' and ']' become '{' and '}'
    return _mm_or_si128(quotes, _mm_or_si128(_mm_cmpeq_epi8(b, open), _mm_cmpeq_epi8(b, close)));
  };
  for (; from + 64 <= end; from += 64) {
    const __m128i a = specials(from), b = specials(from + 16);
    const __m128i c = specials(from + 32), d = specials(from + 48);
    if (_mm_movemask_epi8(_mm_or_si128(_mm_or_si128(a, b), _mm_or_si128(c, d))) == 0) continue;
    const auto bits = [](__m128i v) { return static_cast<uint64_t>(_mm_movemask_epi8(v)); };
    const uint64_t found = bits(a) | bits(b) << 16 | bits(c) << 32 | bits(d) << 48;
    return from + static_cast<size_t>(__builtin_ctzll(found));
  }
#endif
  const auto is_special = [](char c) {
    if (!kBraces) return c == '"' || c == '\\';
    const char brace = static_cast<char>(c | ' ');
    return c == '"' || brace == '{' || brace == '}';
  };
  while (from < end && !is_special(p[from])) ++from;
  return from;
}

bool ReadHex4(std::string_view raw, size_t at, uint32_t* out) {
  if (at + 4 > raw.size()) return false;
  uint32_t v = 0;
  for (size_t i = at; i < at + 4; ++i) {
    const char c = raw[i];
    const int digit = c >= '0' && c <= '9'   ? c - '0'
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                             : -1;
    if (digit < 0) return false;
    v = v << 4 | static_cast<uint32_t>(digit);
  }
  *out = v;
  return true;
}

bool IsHighSurrogate(uint32_t c) { return c >= 0xD800 && c < 0xDC00; }
bool IsLowSurrogate(uint32_t c) { return c >= 0xDC00 && c < 0xE000; }

// The character of the escape "\uXXXX" whose backslash is at `at`; 0 for any other text.
uint32_t UnicodeEscapeAt(std::string_view raw, size_t at) {
  uint32_t c = 0;
  if (at + 6 > raw.size() || raw[at] != '\\' || raw[at + 1] != 'u') return 0;
  return ReadHex4(raw, at + 2, &c) ? c : 0;
}

void PutUtf8(uint32_t c, std::string* out) {
  const auto put = [&](uint32_t byte) { out->push_back(static_cast<char>(byte)); };
  if (c < 0x80) {
    put(c);
  } else if (c < 0x800) {
    put(0xC0 | c >> 6);
    put(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    put(0xE0 | c >> 12);
    put(0x80 | (c >> 6 & 0x3F));
    put(0x80 | (c & 0x3F));
  } else {
    put(0xF0 | c >> 18);
    put(0x80 | (c >> 12 & 0x3F));
    put(0x80 | (c >> 6 & 0x3F));
    put(0x80 | (c & 0x3F));
  }
}

// The escape at raw[*at] == '\\'; moves *at behind it.
bool UnescapeOne(std::string_view raw, size_t* at, std::string* out) {
  if (*at + 1 >= raw.size()) return false;
  const char kind = raw[*at + 1];
  if (kind != 'u') {
    constexpr std::string_view kKinds = "\"\\/bfnrt", kMeant = "\"\\/\b\f\n\r\t";
    const size_t which = kKinds.find(kind);
    if (which == kKinds.npos) return false;
    out->push_back(kMeant[which]);
    *at += 2;
    return true;
  }
  uint32_t c = 0;
  if (!ReadHex4(raw, *at + 2, &c) || IsLowSurrogate(c)) return false;
  *at += 6;
  if (IsHighSurrogate(c)) {
    const uint32_t low = UnicodeEscapeAt(raw, *at);
    if (!IsLowSurrogate(low)) return false;
    c = 0x10000 + ((c & 0x3FF) << 10 | (low & 0x3FF));
    *at += 6;
  }
  PutUtf8(c, out);
  return true;
}

bool IsContinuationByte(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

bool IsBlank(uint32_t c) {
  return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 ||
         c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F ||
         c == 0x205F || c == 0x3000;
}

// The length of the blank that raw text starts with: a character or an escape; 0: none.
size_t BlankAt(std::string_view raw) {
  if (raw.empty()) return 0;
  if (raw[0] == '\\') {
    if (raw.size() >= 2 && (raw[1] == 'n' || raw[1] == 't' || raw[1] == 'r' || raw[1] == 'f'))
      return 2;
    const uint32_t c = UnicodeEscapeAt(raw, 0);
    return c != 0 && IsBlank(c) ? 6 : 0;
  }
  const auto byte = [&](size_t i) {
    return static_cast<uint32_t>(static_cast<unsigned char>(raw[i]));
  };
  if (byte(0) < 0x80) return IsBlank(byte(0)) ? 1 : 0;
  if (byte(0) == 0xC2 && raw.size() >= 2) return IsBlank(byte(1)) ? 2 : 0;  // U+0080..00BF
  if ((byte(0) & 0xF0) == 0xE0 && raw.size() >= 3) {
    return IsBlank((byte(0) & 0xF) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F)) ? 3 : 0;
  }
  return 0;
}

// Whether the backslash at `at` starts an escape, rather than being the second of "\\".
bool StartsEscape(std::string_view raw, size_t at) {
  size_t before = 0;
  while (before < at && raw[at - 1 - before] == '\\') ++before;
  return before % 2 == 0;
}

}  // namespace

size_t NextBrace(std::string_view json, size_t from) { return NextSpecial<true>(json, from); }

size_t EndOfString(std::string_view json, size_t from) {
  for (size_t at = from; (at = NextSpecial<false>(json, at)) < json.size(); at += 2) {
    if (json[at] == '"') return at;
  }
  return std::string_view::npos;
}

size_t DividePlain(std::string_view text, size_t target) {
  for (int i = 0; i < 3 && target < text.size() && IsContinuationByte(text[target]); ++i) ++target;
  return std::min(target, text.size());
}

size_t DivideRaw(std::string_view raw, size_t start, size_t target) {
  if (target >= raw.size()) return raw.size();
  // From a little before: no escape is longer than 6. Its hex digits, if we start among them, stand
  // for themselves.
  size_t at = target - start > 8 ? target - 8 : start;
  size_t escapes = 0;
  while (escapes < at - start && raw[at - 1 - escapes] == '\\') ++escapes;
  if (escapes % 2 != 0) at += raw[at] == 'u' ? 5 : 1;
  while (at < target) at += raw[at] != '\\' ? 1 : at + 1 < raw.size() && raw[at + 1] == 'u' ? 6 : 2;
  at = std::min(at, raw.size());
  if (at >= 6 && IsLowSurrogate(UnicodeEscapeAt(raw, at)) &&
      IsHighSurrogate(UnicodeEscapeAt(raw, at - 6))) {
    at += 6;
  }
  return DividePlain(raw, at);
}

bool Unescape(std::string_view raw, std::string* out) {
  for (size_t at = 0; at < raw.size();) {
    const size_t next = NextSpecial<false>(raw, at);
    out->append(raw, at, next - at);
    at = next;
    if (at == raw.size()) break;
    if (raw[at] == '"' || !UnescapeOne(raw, &at, out)) return false;
  }
  return true;
}

std::string_view MeaningOfName(std::string_view raw, std::string* buffer) {
  constexpr size_t kMaxName = 200;
  if (raw.size() > kMaxName || raw.find('\\') == raw.npos) return raw;
  buffer->clear();
  return Unescape(raw, buffer) ? *buffer : raw;
}

size_t RawBlankPrefix(std::string_view raw) {
  size_t at = 0;
  while (const size_t n = BlankAt(raw.substr(at))) at += n;
  return at;
}

size_t RawBlankSuffix(std::string_view raw) {
  size_t end = raw.size();
  while (end > 0) {
    size_t found = 0;
    for (const size_t n : {1, 2, 3, 6}) {
      if (n > end) break;
      const std::string_view last = raw.substr(end - n, n);
      if (BlankAt(last) == n && (last[0] != '\\' || StartsEscape(raw, end - n))) found = n;
    }
    // "n" alone is no blank, and a space is never the end of an escape.
    if (found == 0) break;
    end -= found;
  }
  return raw.size() - end;
}

}  // namespace ember::router
