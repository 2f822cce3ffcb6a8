#include "client/store_client/segment_seal.h"

#include "proto/wire/limits.h"

namespace ember {

Status CheckPut(const PutRequest& request) {
  if (request.payload.empty()) return InvalidError("a segment without payload");
  if (request.payload.size() > wire::kMaxPayloadBytes) {
    return InvalidError("a payload of " + std::to_string(request.payload.size()) +
                        " bytes, limit " + std::to_string(wire::kMaxPayloadBytes));
  }
  if (request.tokens.size() > kMaxTokensPerSegment || request.layer_offsets.size() > kMaxLayers) {
    return InvalidError("a segment of too many tokens or layers");
  }
  return OkStatus();
}

Bytes SealedHeader(const PutRequest& request, const LayoutDigest& layout, const std::string& writer,
                   const std::string& tenant, RandomSource& random) {
  return Encode(SegmentHeader{.key = request.ref.key,
                              .placement = request.ref.placement,
                              .first_block = request.ref.first_block,
                              .block_count = request.ref.block_count,
                              .proof = request.ref.proof,
                              .tokens = {request.tokens.begin(), request.tokens.end()},
                              .layout = layout,
                              .payload_length = request.payload.size(),
                              .checksum = Xxh3Of(request.payload),
                              .layer_offsets = request.layer_offsets,
                              .writer = writer,
                              .generation = {random.Next(), random.Next()},
                              .tenant = tenant});
}

MissReason OpenHeader(ByteSpan encoded, const SegmentRef& want, std::span<const TokenId> tokens,
                      const LayoutDigest& layout, SegmentHeader* header) {
  Result<SegmentHeader> decoded = DecodeSegmentHeader(encoded);
  if (!decoded.ok()) return MissReason::kCorrupt;
  *header = *std::move(decoded);
  if (header->layout != layout) return MissReason::kLayoutDiffers;
  if (!CheckHeader(*header, want, tokens, layout).ok()) return MissReason::kOtherSalt;
  return MissReason::kNone;
}

bool IsIntact(const GetRequest& request, const SegmentHeader& header,
              const std::optional<Checksum>& received) {
  const uint64_t size = request.buffer.size();
  if (size != header.payload_length) {
    return request.offset && *request.offset <= header.payload_length &&
           size <= header.payload_length - *request.offset;
  }
  if (request.offset.value_or(0) != 0) return false;
  return (received ? *received : Xxh3Of(request.buffer)) == header.checksum;
}

}  // namespace ember
