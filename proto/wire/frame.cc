#include "proto/wire/frame.h"

#include "proto/base/checksum.h"
#include "proto/wire/limits.h"

namespace ember::wire {
namespace {
constexpr uint32_t kMagic = 0x31424d45;  // "EMB1"
}

std::array<std::byte, kFrameHeaderBytes> EncodeFrameHeader(const FrameHeader& header) {
  Bytes out;
  out.reserve(kFrameHeaderBytes);
  ByteWriter w(&out);
  w.Put(kMagic);
  w.Put(kProtocolVersion);
  w.Put(header.type);
  w.Put(header.request_id);
  w.Put(header.meta_length);
  w.Put(uint32_t{0});
  w.Put(header.payload_length);
  w.Put(Xxh3Of64(out));
  std::array<std::byte, kFrameHeaderBytes> bytes;
  std::memcpy(bytes.data(), out.data(), bytes.size());
  return bytes;
}

Result<FrameHeader> DecodeFrameHeader(std::span<const std::byte, kFrameHeaderBytes> bytes) {
  ByteReader r(bytes);
  const auto magic = r.Get<uint32_t>();
  const auto version = r.Get<uint16_t>();
  const auto type = r.Get<uint16_t>();
  FrameHeader header;
  header.request_id = r.Get<uint64_t>();
  header.meta_length = r.Get<uint32_t>();
  r.Get<uint32_t>();
  header.payload_length = r.Get<uint64_t>();
  const auto checksum = r.Get<uint64_t>();
  if (magic != kMagic) return InvalidError("not an EmberKV data-plane frame");
  if (checksum != Xxh3Of64(bytes.first(kFrameHeaderBytes - 8))) {
    return InvalidError("frame header: checksum differs");
  }
  if (version != kProtocolVersion) {
    return MismatchError("frame header: protocol version " + std::to_string(version) +
                         ", this build speaks " + std::to_string(kProtocolVersion));
  }
  if (type == 0 || type > kMaxFrameType) {
    return InvalidError("frame header: unknown type " + std::to_string(type));
  }
  header.type = static_cast<FrameType>(type);
  const size_t max_meta = header.type == FrameType::kHello ? kMaxHelloBytes : kMaxMetaBytes;
  if (header.meta_length > max_meta) {
    return InvalidError("frame header: message of " + std::to_string(header.meta_length) +
                        " bytes, limit " + std::to_string(max_meta));
  }
  if (header.payload_length > kMaxPayloadBytes) {
    return InvalidError("frame header: payload of " + std::to_string(header.payload_length) +
                        " bytes, limit " + std::to_string(kMaxPayloadBytes));
  }
  return header;
}

}  // namespace ember::wire
