#include "router/tokenize/slot_marks.h"

#include <fmt/format.h>

#include "proto/base/random.h"

namespace ember::router {
namespace {

constexpr size_t kDigits = 6;

// A character of the private use area, then 16 secret hex digits.
const std::string& Secret() {
  static const std::string secret = fmt::format("\uF8FF{:016x}", SystemRandom().Next());
  return secret;
}

// The slot whose mark's digits start at `at`; -1 when they are none.
int32_t SlotAt(std::string_view text, size_t at, size_t slots) {
  if (at + kDigits > text.size()) return -1;
  size_t slot = 0;
  for (size_t i = at; i < at + kDigits; ++i) {
    if (text[i] < '0' || text[i] > '9') return -1;
    slot = slot * 10 + static_cast<size_t>(text[i] - '0');
  }
  return slot < slots ? static_cast<int32_t>(slot) : -1;
}

}  // namespace

void PutMark(size_t slot, std::string* out) {
  fmt::format_to(std::back_inserter(*out), "{}{:06}", Secret(), slot);
}

std::vector<TextPiece> SplitAtMarks(std::string_view rendered, size_t slots) {
  std::vector<TextPiece> pieces;
  const auto position = [](size_t at) { return static_cast<uint32_t>(at); };
  // Anything of the secret that is no whole mark, a part or a changed copy of one, is not to be
  // met.
  const std::string_view digits = std::string_view(Secret()).substr(Secret().size() - 16);
  size_t at = 0;
  while (at < rendered.size()) {
    const size_t secret = rendered.find(digits, at);
    const size_t mark = secret == rendered.npos ? rendered.size() : secret - 3;
    if (secret != rendered.npos &&
        (secret < at + 3 || !rendered.substr(mark).starts_with(Secret()))) {
      return {};
    }
    if (mark > at) pieces.push_back({position(at), position(mark), -1});
    if (secret == rendered.npos) break;
    const size_t end = mark + Secret().size() + kDigits;
    const int32_t slot = SlotAt(rendered, end - kDigits, slots);
    if (slot < 0) return {};
    pieces.push_back({position(mark), position(end), slot});
    at = end;
  }
  return pieces;
}

}  // namespace ember::router
