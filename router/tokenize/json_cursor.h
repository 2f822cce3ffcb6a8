// JsonCursor: walks over JSON without building anything. It finds where values begin and end and
// accepts some texts that are no JSON; who reads a value that matters parses it properly.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>

#include "router/tokenize/json_text.h"

namespace ember::router {

class JsonCursor {
 public:
  explicit JsonCursor(std::string_view json) : json_(json) {}

  size_t at() const { return at_; }
  std::string_view Since(size_t begin) const { return json_.substr(begin, at_ - begin); }
  // The next character that is no white space, without taking it; 0 at the end.
  char Peek() {
    while (at_ < json_.size() && IsSpace(json_[at_])) ++at_;
    return at_ < json_.size() ? json_[at_] : '\0';
  }
  bool Take(char c) {
    if (Peek() != c) return false;
    ++at_;
    return true;
  }
  // The raw text of the string that comes next.
  bool TakeString(std::string_view* raw) {
    if (!Take('"')) return false;
    const size_t end = EndOfString(json_, at_);
    if (end == std::string_view::npos) return false;
    *raw = json_.substr(at_, end - at_);
    at_ = end + 1;
    return true;
  }
  // A whole number without sign, of 18 digits at most.
  bool TakeDigits(uint64_t* out) {
    Peek();
    size_t at = at_;
    uint64_t n = 0;
    for (; at < json_.size() && json_[at] >= '0' && json_[at] <= '9'; ++at) {
      n = 10 * n + static_cast<uint64_t>(json_[at] - '0');
    }
    *out = n;
    const size_t digits = at - std::exchange(at_, at);
    return digits > 0 && digits <= 18;
  }
  // The value that comes next, as it is written.
  bool TakeValue(std::string_view* value) {
    Peek();
    const size_t begin = at_;
    if (!SkipValue()) return false;
    *value = Since(begin);
    return true;
  }
  bool SkipValue() {
    for (size_t depth = 0;;) {
      std::string_view ignored;
      const char c = Peek();
      if (c == '"') {
        if (!TakeString(&ignored)) return false;
      } else if (c == '{' || c == '[') {
        ++depth;
        ++at_;
      } else if (c == '}' || c == ']') {
        if (depth == 0) return false;
        --depth;
        ++at_;
      } else if (!SkipScalar()) {
        return false;
      }
      if (depth == 0) return true;
      // What stands between, millions of numbers perhaps, is nobody's matter.
      at_ = NextBrace(json_, at_);
    }
  }
  // Calls `member(raw key)` for each member of the object that comes next, with its value to take.
  template <typename Member>
  bool Object(const Member& member) {
    if (!Take('{')) return false;
    if (Take('}')) return true;
    do {
      std::string_view key;
      if (!TakeString(&key) || !Take(':') || !member(key)) return false;
    } while (Take(','));
    return Take('}');
  }
  template <typename Item>
  bool Array(const Item& item) {
    if (!Take('[')) return false;
    if (Take(']')) return true;
    do {
      if (!item()) return false;
    } while (Take(','));
    return Take(']');
  }

 private:
  static bool IsSpace(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }
  bool SkipScalar() {
    const size_t begin = at_;
    static constexpr auto kEnds = [] {
      std::array<bool, 256> ends{};
      for (const char c : std::string_view(",:]}[{\" \n\r\t")) ends[static_cast<uint8_t>(c)] = true;
      return ends;
    }();
    while (at_ < json_.size() && !kEnds[static_cast<uint8_t>(json_[at_])]) ++at_;
    return at_ > begin;
  }

  std::string_view json_;
  size_t at_ = 0;
};

}  // namespace ember::router
