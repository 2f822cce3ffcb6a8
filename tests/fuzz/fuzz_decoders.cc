// Every decoder of data-plane bytes: frame headers, messages, segment headers, offers of shared
// memory. The first byte chooses one. What decodes must encode to something that decodes to the
// same again.
#include <cstddef>
#include <cstdint>

#include "proto/base/check.h"
#include "proto/base/checksum.h"
#include "proto/model/segment.h"
#include "proto/wire/arena_offer.h"
#include "proto/wire/frame.h"
#include "proto/wire/messages.h"

namespace ember {
namespace {

template <typename Message>
void FuzzMessage(ByteSpan bytes) {
  Result<Message> message = wire::Decode<Message>(bytes);
  if (!message.ok()) return;
  const Bytes encoded = wire::Encode(*message);
  Result<Message> again = wire::Decode<Message>(encoded);
  EMBER_CHECK(again.ok() && wire::Encode(*again) == encoded, "encoding is stable");
}

void FuzzFrameHeader(ByteSpan bytes, bool repair) {
  if (bytes.size() < wire::kFrameHeaderBytes) return;
  Bytes header(bytes.begin(), bytes.begin() + wire::kFrameHeaderBytes);
  if (repair) {
    const uint64_t checksum = Xxh3Of64(ByteSpan(header).first(wire::kFrameHeaderBytes - 8));
    std::memcpy(header.data() + wire::kFrameHeaderBytes - 8, &checksum, 8);
    std::memcpy(header.data(), "EMB1\1\0", 6);
  }
  Result<wire::FrameHeader> decoded =
      wire::DecodeFrameHeader(ByteSpan(header).first<wire::kFrameHeaderBytes>());
  if (decoded.ok()) (void)wire::EncodeFrameHeader(*decoded);
}

void FuzzSegmentHeader(ByteSpan bytes, bool repair) {
  Bytes encoded(bytes.begin(), bytes.end());
  if (repair) {
    const uint64_t checksum = Xxh3Of64(encoded);
    const auto* p = reinterpret_cast<const std::byte*>(&checksum);
    encoded.insert(encoded.end(), p, p + 8);
  }
  Result<SegmentHeader> header = DecodeSegmentHeader(encoded);
  if (header.ok()) EMBER_CHECK(Encode(*header) == encoded, "one encoding for one header");
}

void FuzzArenaOffer(ByteSpan bytes, bool repair) {
  Bytes encoded(bytes.begin(), bytes.end());
  if (repair) {
    encoded.resize(wire::kArenaOfferBytes - 8);
    std::memcpy(encoded.data(), "EMBA\1", 5);
    const uint64_t checksum = Xxh3Of64(encoded);
    const auto* p = reinterpret_cast<const std::byte*>(&checksum);
    encoded.insert(encoded.end(), p, p + 8);
  }
  Result<wire::ArenaOffer> offer = wire::DecodeArenaOffer(encoded);
  if (offer.ok()) EMBER_CHECK(wire::Encode(*offer) == encoded, "one encoding for one offer");
}

void Fuzz(uint8_t which, ByteSpan bytes) {
  switch (which % 21) {
    case 0:
      return FuzzFrameHeader(bytes, false);
    case 1:
      return FuzzFrameHeader(bytes, true);
    case 2:
      return FuzzSegmentHeader(bytes, false);
    case 3:
      return FuzzSegmentHeader(bytes, true);
    case 4:
      return FuzzMessage<wire::Hello>(bytes);
    case 5:
      return FuzzMessage<wire::HelloReply>(bytes);
    case 6:
      return FuzzMessage<wire::Match>(bytes);
    case 7:
      return FuzzMessage<wire::MatchReply>(bytes);
    case 8:
      return FuzzMessage<wire::Reserve>(bytes);
    case 9:
      return FuzzMessage<wire::ReserveReply>(bytes);
    case 10:
      return FuzzMessage<wire::Write>(bytes);
    case 11:
      return FuzzMessage<wire::Commit>(bytes);
    case 12:
      return FuzzMessage<wire::CommitReply>(bytes);
    case 13:
      return FuzzMessage<wire::Abort>(bytes);
    case 14:
      return FuzzMessage<wire::Release>(bytes);
    case 15:
      return FuzzMessage<wire::Get>(bytes);
    case 16:
      return FuzzMessage<wire::GetReply>(bytes);
    case 17:
      return FuzzMessage<wire::ErrorReply>(bytes);
    case 18:
      return FuzzMessage<wire::ReportCorrupt>(bytes);
    case 19:
      return FuzzArenaOffer(bytes, false);
    case 20:
      return FuzzArenaOffer(bytes, true);
  }
}

}  // namespace
}  // namespace ember

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  ember::Fuzz(data[0], std::as_bytes(std::span(data + 1, size - 1)));
  return 0;
}
