// Frame: the data plane's unit. A 40-byte header, a small encoded message ("meta"), then raw
// payload bytes that go straight to or from a segment's memory.
//
//   u32 magic "EMB1" | u16 protocol version | u16 type | u64 request id | u32 meta length |
//   u32 reserved, zero | u64 payload length | u64 XXH3-64 of the 32 bytes before (little-endian)
//
// The header's checksum tells a desynchronised or foreign stream before any length is believed.
#pragma once

#include <array>
#include <cstdint>

#include "proto/base/bytes.h"

namespace ember::wire {

inline constexpr uint16_t kProtocolVersion = 2;
inline constexpr size_t kFrameHeaderBytes = 40;

enum class FrameType : uint16_t {
  kHello = 1,  // client -> node, first frame of a connection
  kHelloReply = 2,
  kMatch = 3,
  kMatchReply = 4,
  kReserve = 5,  // first phase of a put
  kReserveReply = 6,
  kWrite = 7,   // payload for one reserved attempt; no reply, its verdict comes with the commit
  kCommit = 8,  // second phase
  kCommitReply = 9,
  kAbort = 10,    // no reply
  kRelease = 11,  // of a lease; no reply
  kGet = 12,
  kGetReply = 13,  // one per item asked, in order
  kError = 14,     // instead of a reply; request id 0: about the connection, which then closes
  kPing = 15,
  kPong = 16,
  kReportCorrupt = 17,  // a reader's checksum differed; no reply
};
inline constexpr uint16_t kMaxFrameType = 17;

struct FrameHeader {
  FrameType type = FrameType::kError;
  uint64_t request_id = 0;
  uint32_t meta_length = 0;
  uint64_t payload_length = 0;
};

std::array<std::byte, kFrameHeaderBytes> EncodeFrameHeader(const FrameHeader& header);
// Appends the frame's header and message; its payload comes next.
void AppendFrameHead(FrameType type, uint64_t request_id, ByteSpan meta, uint64_t payload_length,
                     Bytes* out);
// kInvalid: not a frame, a wrong checksum, unknown type, or a length over the limits: the stream
// can't be trusted any further. kMismatch: a protocol version this build doesn't speak.
Result<FrameHeader> DecodeFrameHeader(std::span<const std::byte, kFrameHeaderBytes> bytes);

}  // namespace ember::wire
