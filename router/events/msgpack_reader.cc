#include "router/events/msgpack_reader.h"

#include <array>
#include <bit>

namespace ember::router {

// The format: https://github.com/msgpack/msgpack/blob/master/spec.md
MsgpackReader::Head MsgpackReader::Next() const {
  if (failed_ || in_.empty()) return {};
  const auto tag = static_cast<uint8_t>(in_[0]);
  const auto sized = [&](Kind kind, size_t length_bytes, size_t more = 0) {
    return Head{kind, 1 + length_bytes, BigEndian(1, length_bytes) + more};
  };
  if (tag <= 0x7f || tag >= 0xe0) return {Kind::kInt, 1, 0};
  if (tag <= 0x8f) return {Kind::kMap, 1, tag & 0x0fu};
  if (tag <= 0x9f) return {Kind::kArray, 1, tag & 0x0fu};
  if (tag <= 0xbf) return {Kind::kString, 1, tag & 0x1fu};
  switch (tag) {
    case 0xc0:
      return {Kind::kNil, 1, 0};
    case 0xc2:
    case 0xc3:
      return {Kind::kBool, 1, 0};
    case 0xc4:
    case 0xc5:
    case 0xc6:
      return sized(Kind::kBinary, size_t{1} << (tag - 0xc4));
    case 0xc7:
    case 0xc8:
    case 0xc9:  // the byte after the length is the extension's type
      return sized(Kind::kExt, size_t{1} << (tag - 0xc7), 1);
    case 0xca:
    case 0xcb:
      return {Kind::kFloat, 1, size_t{4} << (tag - 0xca)};
    case 0xcc:
    case 0xcd:
    case 0xce:
    case 0xcf:
      return {Kind::kInt, 1, size_t{1} << (tag - 0xcc)};
    case 0xd0:
    case 0xd1:
    case 0xd2:
    case 0xd3:
      return {Kind::kInt, 1, size_t{1} << (tag - 0xd0)};
    case 0xd4:
    case 0xd5:
    case 0xd6:
    case 0xd7:
    case 0xd8:
      return {Kind::kExt, 1, 1 + (size_t{1} << (tag - 0xd4))};
    case 0xd9:
    case 0xda:
    case 0xdb:
      return sized(Kind::kString, size_t{1} << (tag - 0xd9));
    case 0xdc:
    case 0xdd:
      return sized(Kind::kArray, size_t{2} << (tag - 0xdc));
    case 0xde:
    case 0xdf:
      return sized(Kind::kMap, size_t{2} << (tag - 0xde));
    default:  // 0xc1 is never used
      return {};
  }
}

MsgpackReader::Kind MsgpackReader::Peek() const { return Next().kind; }

uint64_t MsgpackReader::BigEndian(size_t offset, size_t bytes) const {
  uint64_t value = 0;
  if (in_.size() < offset + bytes) return value;
  for (size_t i = 0; i < bytes; ++i) value = value << 8 | static_cast<uint8_t>(in_[offset + i]);
  return value;
}

bool MsgpackReader::Take(const Head& head, bool wanted) {
  if (!wanted || head.head_bytes > in_.size()) failed_ = true;
  if (failed_) return false;
  in_ = in_.subspan(head.head_bytes);
  return true;
}

void MsgpackReader::ReadNil() {
  const Head head = Next();
  Take(head, head.kind == Kind::kNil);
}

MsgpackReader::Int MsgpackReader::ReadInt() {
  const Head head = Next();
  const auto tag = in_.empty() ? uint8_t{0} : static_cast<uint8_t>(in_[0]);
  if (!Take(head, head.kind == Kind::kInt)) return {};
  if (tag <= 0x7f) return {tag, false};
  if (tag >= 0xe0) return {static_cast<uint64_t>(int64_t{static_cast<int8_t>(tag)}), true};
  if (head.length > in_.size()) {
    failed_ = true;
    return {};
  }
  uint64_t bits = BigEndian(0, head.length);
  in_ = in_.subspan(head.length);
  if (tag < 0xd0) return {bits, false};
  // Signed: the top bit of the field is the sign.
  const size_t unused = 64 - 8 * head.length;
  bits = static_cast<uint64_t>(static_cast<int64_t>(bits << unused) >> unused);
  return {bits, static_cast<int64_t>(bits) < 0};
}

double MsgpackReader::ReadNumber() {
  const Head head = Next();
  if (head.kind == Kind::kInt) {
    const Int value = ReadInt();
    return value.negative ? static_cast<double>(static_cast<int64_t>(value.bits))
                          : static_cast<double>(value.bits);
  }
  if (!Take(head, head.kind == Kind::kFloat)) return 0;
  if (head.length > in_.size()) {
    failed_ = true;
    return 0;
  }
  const uint64_t bits = BigEndian(0, head.length);
  in_ = in_.subspan(head.length);
  return head.length == 4 ? std::bit_cast<float>(static_cast<uint32_t>(bits))
                          : std::bit_cast<double>(bits);
}

ByteSpan MsgpackReader::ReadBytes() {
  const Head head = Next();
  if (!Take(head, head.kind == Kind::kString || head.kind == Kind::kBinary)) return {};
  if (head.length > in_.size()) {
    failed_ = true;
    return {};
  }
  const ByteSpan bytes = in_.first(head.length);
  in_ = in_.subspan(head.length);
  return bytes;
}

size_t MsgpackReader::ReadArray() {
  const Head head = Next();
  if (!Take(head, head.kind == Kind::kArray)) return 0;
  if (head.length > in_.size()) failed_ = true;  // an element takes at least a byte
  return failed_ ? 0 : head.length;
}

size_t MsgpackReader::ReadMap() {
  const Head head = Next();
  if (!Take(head, head.kind == Kind::kMap)) return 0;
  if (2 * head.length > in_.size()) failed_ = true;
  return failed_ ? 0 : head.length;
}

ByteSpan MsgpackReader::Skip() {
  const ByteSpan start = in_;
  std::array<uint64_t, kMaxDepth> left{};  // values still to pass, by depth
  size_t depth = 0;
  left[0] = 1;
  while (!failed_) {
    if (left[depth] == 0) {
      if (depth == 0) return start.first(start.size() - in_.size());
      --depth;
      continue;
    }
    --left[depth];
    const Head head = Next();
    if (!Take(head, head.kind != Kind::kEnd)) break;
    if (head.kind == Kind::kArray || head.kind == Kind::kMap) {
      const uint64_t values = head.kind == Kind::kMap ? 2 * head.length : head.length;
      if (values > in_.size() || ++depth == kMaxDepth) {
        failed_ = true;
        break;
      }
      left[depth] = values;
    } else if (head.length > in_.size()) {
      failed_ = true;
    } else {
      in_ = in_.subspan(head.length);
    }
  }
  return {};
}

}  // namespace ember::router
