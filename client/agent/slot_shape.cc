#include "client/agent/slot_shape.h"

#include <algorithm>

namespace ember::agent {
namespace {
constexpr uint32_t kMagic = 0x504c5345;  // "ESLP"
constexpr uint16_t kFormat = 1;
constexpr size_t kFixedHeaderBytes = 28;
constexpr size_t kPlaneBytes = 8;
constexpr size_t kAlignment = 64;
}  // namespace

uint64_t SlotShape::BytesPerToken() const {
  uint64_t sum = 0;
  for (const SlotPlane& plane : planes) sum += plane.row_bytes;
  return sum;
}

size_t SlotShape::PayloadHeaderBytes() const {
  const size_t bytes = kFixedHeaderBytes + kPlaneBytes * planes.size();
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

uint64_t SlotShape::PayloadBytes(size_t tokens) const {
  return PayloadHeaderBytes() + BytesPerToken() * tokens;
}

std::vector<uint64_t> SlotShape::LayerOffsets(size_t tokens) const {
  std::vector<uint64_t> out;
  uint64_t offset = PayloadHeaderBytes();
  for (uint32_t i = 0; i < layers && i < planes.size(); ++i) {
    out.push_back(offset);
    offset += planes[i].row_bytes * tokens;
  }
  return out;
}

Bytes SlotShape::PayloadHeader(size_t tokens) const {
  Bytes out;
  out.reserve(PayloadHeaderBytes());
  ByteWriter w(&out);
  w.Put(kMagic);
  w.Put(kFormat);
  w.Put(uint16_t{0});
  w.Put(static_cast<uint32_t>(tokens));
  w.Put(layers);
  w.Put(n_rot_k);
  w.Put(n_rot_v);
  w.Put(static_cast<uint32_t>(planes.size()));
  for (const SlotPlane& plane : planes) {
    w.Put(plane.type);
    w.Put(plane.row_bytes);
  }
  out.resize(PayloadHeaderBytes());
  return out;
}

Status CheckPayload(ByteSpan payload, const SlotShape& shape, size_t tokens) {
  if (payload.size() != shape.PayloadBytes(tokens)) {
    return MismatchError("segment payload: " + std::to_string(payload.size()) +
                         " bytes instead of " + std::to_string(shape.PayloadBytes(tokens)));
  }
  if (!std::ranges::equal(payload.first(shape.PayloadHeaderBytes()), shape.PayloadHeader(tokens))) {
    return MismatchError("segment payload: made for another shape");
  }
  return OkStatus();
}

}  // namespace ember::agent
