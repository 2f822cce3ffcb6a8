// Writes MessagePack, for tests that play an engine.
#pragma once

#include <bit>
#include <string>
#include <string_view>

#include "proto/base/bytes.h"

namespace ember::router {

class MsgpackWriter {
 public:
  MsgpackWriter& Nil() { return Tag(0xc0); }
  MsgpackWriter& Unsigned(uint64_t v) {
    if (v < 0x80) return Tag(static_cast<uint8_t>(v));
    if (v <= 0xff) return Tag(0xcc).Big(v, 1);
    if (v <= 0xffff) return Tag(0xcd).Big(v, 2);
    if (v <= 0xffffffff) return Tag(0xce).Big(v, 4);
    return Tag(0xcf).Big(v, 8);
  }
  MsgpackWriter& Signed(int64_t v) {
    if (v >= 0) return Unsigned(static_cast<uint64_t>(v));
    if (v >= -32) return Tag(static_cast<uint8_t>(v));
    return Tag(0xd3).Big(static_cast<uint64_t>(v), 8);
  }
  MsgpackWriter& Double(double v) { return Tag(0xcb).Big(std::bit_cast<uint64_t>(v), 8); }
  MsgpackWriter& Text(std::string_view s) {
    if (s.size() < 32) {
      Tag(static_cast<uint8_t>(0xa0 | s.size()));
    } else {
      Tag(0xda).Big(s.size(), 2);
    }
    return Raw(s);
  }
  MsgpackWriter& Binary(std::string_view s) { return Tag(0xc5).Big(s.size(), 2).Raw(s); }
  MsgpackWriter& Array(size_t n) {
    return n < 16 ? Tag(static_cast<uint8_t>(0x90 | n)) : Tag(0xdd).Big(n, 4);
  }
  MsgpackWriter& Map(size_t n) {
    return n < 16 ? Tag(static_cast<uint8_t>(0x80 | n)) : Tag(0xdf).Big(n, 4);
  }
  MsgpackWriter& Tag(uint8_t tag) {
    out_.push_back(static_cast<char>(tag));
    return *this;
  }
  MsgpackWriter& Big(uint64_t v, int bytes) {
    for (int i = bytes - 1; i >= 0; --i) out_.push_back(static_cast<char>(v >> (8 * i)));
    return *this;
  }
  MsgpackWriter& Raw(std::string_view bytes) {
    out_ += bytes;
    return *this;
  }

  const std::string& str() const { return out_; }

 private:
  std::string out_;
};

}  // namespace ember::router
