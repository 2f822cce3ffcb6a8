#include "proto/wire/frame.h"

#include "proto/base/checksum.h"
#include "proto/wire/limits.h"

namespace ember::wire {
namespace {
constexpr uint32_t kFrameMagic = 0x31424d45;  // "EMB1"
}

std::array<std::byte, kFrameHeaderBytes> EncodeFrameHeader(const FrameHeader& header) {
  std::array<std::byte, kFrameHeaderBytes> bytes;
  size_t end = 0;
  const auto put = [&](auto value) {
    std::memcpy(bytes.data() + end, &value, sizeof value);
    end += sizeof value;
  };
  put(kFrameMagic);
  put(kProtocolVersion);
  put(header.type);
  put(header.request_id);
  put(header.meta_length);
  put(uint32_t{0});
  put(header.payload_length);
  put(Xxh3Of64(ByteSpan(bytes).first(end)));
  return bytes;
}

void AppendFrameHead(FrameType type, uint64_t request_id, ByteSpan meta, uint64_t payload_length,
                     Bytes* out) {
  const auto header =
      EncodeFrameHeader({type, request_id, static_cast<uint32_t>(meta.size()), payload_length});
  out->insert(out->end(), header.begin(), header.end());
  out->insert(out->end(), meta.begin(), meta.end());
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
  if (magic != kFrameMagic) return InvalidError("not an EmberKV data-plane frame");
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
