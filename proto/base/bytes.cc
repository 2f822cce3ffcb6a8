#include "proto/base/bytes.h"

namespace ember {
namespace {
int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}
}  // namespace

std::string ToHex(ByteSpan bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  out.reserve(bytes.size() * 2);
  for (std::byte b : bytes) {
    out.push_back(kDigits[static_cast<uint8_t>(b) >> 4]);
    out.push_back(kDigits[static_cast<uint8_t>(b) & 15]);
  }
  return out;
}

Status FromHex(std::string_view hex, MutableByteSpan out) {
  if (hex.size() != out.size() * 2) {
    return InvalidError("expected " + std::to_string(out.size() * 2) + " hex digits, got " +
                        std::to_string(hex.size()) + " characters");
  }
  for (size_t i = 0; i < out.size(); ++i) {
    const int high = HexDigit(hex[2 * i]);
    const int low = HexDigit(hex[2 * i + 1]);
    if (high < 0 || low < 0) return InvalidError("not a hex string");
    out[i] = static_cast<std::byte>(high << 4 | low);
  }
  return OkStatus();
}

Status ByteReader::Finish(std::string_view what) const {
  if (failed_) return InvalidError(std::string(what) + ": truncated, or a length out of bounds");
  if (!in_.empty()) {
    return InvalidError(std::string(what) + ": " + std::to_string(in_.size()) + " bytes left over");
  }
  return OkStatus();
}

}  // namespace ember
