// MsgpackReader: reads MessagePack from bytes that nobody vouches for, value by value, in place.
//
// It never reads past its span, allocates nothing, and trusts no length: an array or map of more
// elements than bytes are left is an error, and so is a skipped value that nests deeper than
// kMaxDepth. After an error every read gives zero and Peek gives kEnd; the caller checks failed()
// once. A read of another kind than the next value's is an error too, so callers Peek first.
// A plain value; the span must outlive it and what it returns.
#pragma once

#include <cstdint>
#include <string_view>

#include "proto/base/bytes.h"

namespace ember::router {

class MsgpackReader {
 public:
  static constexpr size_t kMaxDepth = 32;

  enum class Kind : uint8_t {
    kEnd,
    kNil,
    kBool,
    kInt,
    kFloat,
    kString,
    kBinary,
    kArray,
    kMap,
    kExt
  };

  // What an integer of any encoding says: -1 and 2^64-1 differ.
  struct Int {
    uint64_t bits = 0;  // two's complement
    bool negative = false;
  };

  explicit MsgpackReader(ByteSpan in) : in_(in) {}

  Kind Peek() const;
  bool failed() const { return failed_; }

  void ReadNil();
  Int ReadInt();
  // An integer or a float of either size.
  double ReadNumber();
  // A string or binary.
  ByteSpan ReadBytes();
  std::string_view ReadText() { return AsString(ReadBytes()); }
  // The number of elements, or of key-value pairs, that follow.
  size_t ReadArray();
  size_t ReadMap();
  // Passes over one value of any kind and gives its encoding.
  ByteSpan Skip();

 private:
  struct Head {
    Kind kind = Kind::kEnd;
    size_t head_bytes = 0;  // tag and length field
    uint64_t length = 0;    // bytes that follow the head, or elements
  };
  Head Next() const;
  uint64_t BigEndian(size_t offset, size_t bytes) const;
  // Fails unless the next value is of the kind and its head is whole.
  bool Take(const Head& head, bool wanted);

  ByteSpan in_;
  bool failed_ = false;
};

}  // namespace ember::router
