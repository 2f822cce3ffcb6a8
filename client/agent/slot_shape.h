// SlotShape: everything about a slot file that doesn't depend on its tokens; and the payload of one
// segment, which repeats it so that it can only be joined with its like.
//
// A payload of n tokens is a header (u32 magic, u16 format, u16 0, u32 n, u32 layers, u32 n_rot_k,
// u32 n_rot_v, u32 planes, per plane i32 type and u32 row bytes; zeros up to a multiple of 64),
// then per plane, in the slot file's order, n rows.
//
// Plain values and pure functions; any thread. Payloads come from outside: they are checked.
#pragma once

#include <vector>

#include "proto/base/bytes.h"
#include "proto/model/block_hash.h"

namespace ember::agent {

struct SlotPlane {
  int32_t type = 0;        // ggml's number of the element type
  uint32_t row_bytes = 0;  // of one token
  bool operator==(const SlotPlane&) const = default;
};

struct SlotShape {
  uint32_t layers = 0;
  uint32_t n_rot_k = 0;
  uint32_t n_rot_v = 0;
  std::vector<SlotPlane> planes;  // K of each layer, then V of each layer
  bool operator==(const SlotShape&) const = default;

  uint64_t BytesPerToken() const;
  size_t PayloadHeaderBytes() const;
  uint64_t PayloadBytes(size_t tokens) const;
  // Where each layer's K rows begin in a payload of that many tokens.
  std::vector<uint64_t> LayerOffsets(size_t tokens) const;
  // The header alone: PayloadHeaderBytes() bytes.
  Bytes PayloadHeader(size_t tokens) const;
};

// More than any engine of today needs; beyond them a file or payload is refused.
inline constexpr uint32_t kMaxSlotTokens = 1u << 20;
inline constexpr uint32_t kMaxSlotRowBytes = 1u << 20;

// kMismatch unless the payload is one for `tokens` tokens of this shape, whole.
Status CheckPayload(ByteSpan payload, const SlotShape& shape, size_t tokens);

}  // namespace ember::agent
