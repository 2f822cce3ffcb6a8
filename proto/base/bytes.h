// Byte spans, hex, and the bounded little-endian reader and writer that every format of ours is
// made with.
//
// ByteReader never reads past its span and never trusts a length: a short or oversized field sets
// failed(), every later read returns zero, and the caller checks ok() once at the end.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "proto/base/status.h"

namespace ember {

using Bytes = std::vector<std::byte>;
using ByteSpan = std::span<const std::byte>;
using MutableByteSpan = std::span<std::byte>;

inline ByteSpan AsBytes(std::string_view s) {
  return {reinterpret_cast<const std::byte*>(s.data()), s.size()};
}
inline std::string_view AsString(ByteSpan s) {
  return {reinterpret_cast<const char*>(s.data()), s.size()};
}

std::string ToHex(ByteSpan bytes);
// Exactly 2*out.size() hex digits of either case, else kInvalid.
Status FromHex(std::string_view hex, MutableByteSpan out);

static_assert(std::endian::native == std::endian::little,
              "formats are little-endian and copied as they are");

class ByteWriter {
 public:
  explicit ByteWriter(Bytes* out) : out_(out) {}
  template <typename T>
    requires std::is_integral_v<T> || std::is_enum_v<T>
  void Put(T v) {
    const auto* p = reinterpret_cast<const std::byte*>(&v);
    out_->insert(out_->end(), p, p + sizeof v);
  }
  void PutRaw(ByteSpan b) { out_->insert(out_->end(), b.begin(), b.end()); }
  // u32 length, then the bytes.
  void PutSized(ByteSpan b) {
    Put(static_cast<uint32_t>(b.size()));
    PutRaw(b);
  }

 private:
  Bytes* out_;
};

class ByteReader {
 public:
  explicit ByteReader(ByteSpan in) : in_(in) {}
  template <typename T>
    requires std::is_integral_v<T>
  T Get() {
    T v{};
    if (ByteSpan b = GetRaw(sizeof v); !b.empty()) std::memcpy(&v, b.data(), sizeof v);
    return v;
  }
  // A view of exactly `n` bytes, or an empty one with failed() set.
  ByteSpan GetRaw(size_t n) {
    if (failed_ || n > in_.size()) {
      failed_ = true;
      return {};
    }
    ByteSpan out = in_.first(n);
    in_ = in_.subspan(n);
    return out;
  }
  // A u32 length of at most `max`, then that many bytes.
  ByteSpan GetSized(size_t max) {
    const auto n = Get<uint32_t>();
    if (n > max) failed_ = true;
    return GetRaw(n);
  }
  // A u32 element count of at most `max` whose elements, at `element_size` bytes or more each, can
  // still be in the span; so a reader never reserves memory for a count that lies.
  uint32_t GetCount(size_t max, size_t element_size) {
    const auto n = Get<uint32_t>();
    if (n > max || n * element_size > in_.size()) failed_ = true;
    return failed_ ? 0 : n;
  }
  void Fail() { failed_ = true; }
  bool failed() const { return failed_; }
  size_t remaining() const { return in_.size(); }
  // OK when every read was in bounds and nothing is left over.
  Status Finish(std::string_view what) const;

 private:
  ByteSpan in_;
  bool failed_ = false;
};

}  // namespace ember
