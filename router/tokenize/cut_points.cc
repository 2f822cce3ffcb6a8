#include "router/tokenize/cut_points.h"

#include <algorithm>
#include <iterator>

namespace ember::router {
namespace {

// Letters (Unicode categories Lu, Ll, Lo) of the common scripts; what is not in here is no letter
// to the rules, which costs a cut and no more.
struct LetterRange {
  uint32_t first, last;
};
constexpr LetterRange kLetters[] = {
    {'A', 'Z'},       {'a', 'z'},       {0xC0, 0xD6},     {0xD8, 0xF6},     {0xF8, 0x1BA},
    {0x391, 0x3A1},   {0x3A3, 0x3CE},   {0x410, 0x44F},   {0x531, 0x556},   {0x561, 0x586},
    {0x5D0, 0x5EA},   {0x620, 0x63F},   {0x641, 0x64A},   {0x905, 0x939},   {0xE01, 0xE30},
    {0x10D0, 0x10F0}, {0x3041, 0x3096}, {0x30A1, 0x30FA}, {0x4E00, 0x9FEF}, {0xAC00, 0xD7A3}};

bool IsContinuation(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

// The character that starts at `at`; 0 for anything but whole UTF-8.
uint32_t CharAt(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  if (at >= text.size()) return 0;
  const uint32_t lead = byte(at);
  if (lead < 0x80) return lead;
  const size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : lead >= 0xC2 ? 2 : 0;
  if (length == 0 || at + length > text.size()) return 0;
  uint32_t c = lead & (0x7F >> length);
  for (size_t i = 1; i < length; ++i) c = c << 6 | (byte(at + i) & 0x3F);
  return c;
}

bool IsLetter(uint32_t c) {
  const auto it = std::lower_bound(std::begin(kLetters), std::end(kLetters), c,
                                   [](const LetterRange& r, uint32_t v) { return r.last < v; });
  return it != std::end(kLetters) && c >= it->first;
}

// The character that ends before `at`.
uint32_t CharBefore(std::string_view text, size_t at) {
  size_t start = at - 1;
  while (start > 0 && at - start < 4 && IsContinuation(text[start])) --start;
  return CharAt(text, start);
}

bool IsVisible(uint32_t c) { return (c > 0x20 && c < 0x7F) || IsLetter(c); }

bool IsCjkPause(uint32_t c) {
  return c == 0x3002 || c == 0xFF0C || c == 0x3001 || c == 0xFF01 || c == 0xFF1F;
}

bool MayCut(std::string_view text, size_t at, uint32_t mask) {
  switch (text[at]) {
    case ' ':
      return (mask & kCutBeforeSpace) != 0 && IsLetter(CharAt(text, at + 1)) &&
             IsVisible(CharBefore(text, at));
    case '\xE3':
    case '\xEF':
      if ((mask & kCutBeforePunctuation) != 0 && IsCjkPause(CharAt(text, at)) &&
          IsLetter(CharAt(text, at + 3)) && IsLetter(CharBefore(text, at))) {
        return true;
      }
      break;
    default:
      break;
  }
  return (mask & kCutAfterLine) != 0 && text[at - 1] == '\n' && at >= 2 &&
         IsLetter(CharAt(text, at)) && IsVisible(CharBefore(text, at - 1));
}

}  // namespace

size_t LastCut(std::string_view text, size_t from, uint32_t mask) {
  if (mask == 0) return 0;
  for (size_t at = text.size(); at > from + 1;) {
    if (MayCut(text, --at, mask)) return at;
  }
  return 0;
}

}  // namespace ember::router
