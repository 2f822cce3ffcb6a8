#include "proto/model/segment.h"

#include <algorithm>

namespace ember {
namespace {
constexpr uint32_t kMagic = 0x47455345;  // "ESEG"
constexpr uint16_t kFormat = 1;
constexpr uint32_t kTargetTokensPerSegment = 64;

template <size_t N>
void Read(ByteReader* r, std::array<std::byte, N>* out) {
  if (ByteSpan b = r->GetRaw(N); !b.empty()) std::memcpy(out->data(), b.data(), N);
}
}  // namespace

Bytes Encode(const SegmentHeader& h) {
  Bytes out;
  ByteWriter w(&out);
  w.Put(kMagic);
  w.Put(kFormat);
  w.PutRaw(h.key.ns.bytes);
  w.PutRaw(h.key.hash.bytes);
  w.PutRaw(h.placement.bytes);
  w.Put(h.first_block);
  w.Put(h.block_count);
  w.PutRaw(h.proof);
  w.Put(static_cast<uint32_t>(h.tokens.size()));
  w.PutRaw(std::as_bytes(std::span(h.tokens)));
  w.PutRaw(h.layout);
  w.Put(h.rank);
  w.Put(h.rank_count);
  w.Put(h.payload_length);
  w.PutRaw(h.checksum);
  w.Put(static_cast<uint32_t>(h.layer_offsets.size()));
  w.PutRaw(std::as_bytes(std::span(h.layer_offsets)));
  w.PutSized(AsBytes(h.writer));
  w.Put(h.generation.high);
  w.Put(h.generation.low);
  w.PutSized(AsBytes(h.tenant));
  w.Put(Xxh3Of64(out));
  return out;
}

Result<SegmentHeader> DecodeSegmentHeader(ByteSpan bytes) {
  if (bytes.size() > kMaxSegmentHeaderBytes) return InvalidError("segment header: too large");
  SegmentHeader h;
  ByteReader r(bytes);
  const auto magic = r.Get<uint32_t>();
  const auto format = r.Get<uint16_t>();
  if (r.failed() || magic != kMagic) return InvalidError("segment header: not one");
  if (format != kFormat) {
    return InvalidError("segment header: format " + std::to_string(format) + " is not known here");
  }
  Read(&r, &h.key.ns.bytes);
  Read(&r, &h.key.hash.bytes);
  Read(&r, &h.placement.bytes);
  h.first_block = r.Get<uint32_t>();
  h.block_count = r.Get<uint32_t>();
  Read(&r, &h.proof);
  h.tokens.resize(r.GetCount(kMaxTokensPerSegment, sizeof(TokenId)));
  ByteSpan tokens = r.GetRaw(h.tokens.size() * sizeof(TokenId));
  if (!tokens.empty()) std::memcpy(h.tokens.data(), tokens.data(), tokens.size());
  Read(&r, &h.layout);
  h.rank = r.Get<uint32_t>();
  h.rank_count = r.Get<uint32_t>();
  h.payload_length = r.Get<uint64_t>();
  Read(&r, &h.checksum);
  h.layer_offsets.resize(r.GetCount(kMaxLayers, sizeof(uint64_t)));
  ByteSpan offsets = r.GetRaw(h.layer_offsets.size() * sizeof(uint64_t));
  if (!offsets.empty()) std::memcpy(h.layer_offsets.data(), offsets.data(), offsets.size());
  h.writer = AsString(r.GetSized(kMaxNameBytes));
  h.generation.high = r.Get<uint64_t>();
  h.generation.low = r.Get<uint64_t>();
  h.tenant = AsString(r.GetSized(kMaxNameBytes));
  const auto checksum = r.Get<uint64_t>();
  EMBER_RETURN_IF_ERROR(r.Finish("segment header"));
  if (checksum != Xxh3Of64(bytes.first(bytes.size() - sizeof checksum))) {
    return CorruptError("segment header: checksum differs");
  }
  return h;
}

uint32_t BlocksPerSegment(uint32_t tokens_per_block) {
  EMBER_CHECK(tokens_per_block > 0, "a block holds tokens");
  return (kTargetTokensPerSegment + tokens_per_block - 1) / tokens_per_block;
}

std::vector<SegmentRef> CutSegments(const HashChain& chain) {
  const uint32_t blocks_per_segment = BlocksPerSegment(chain.tokens_per_block());
  const uint32_t tokens_per_segment = blocks_per_segment * chain.tokens_per_block();
  const uint32_t segments_per_group = std::max(1u, kTokensPerPlacementGroup / tokens_per_segment);
  std::vector<SegmentRef> out;
  for (size_t end = blocks_per_segment; end <= chain.blocks().size(); end += blocks_per_segment) {
    const size_t group_start = out.size() / segments_per_group * segments_per_group;
    SegmentRef ref;
    ref.key = chain.key(end - 1);
    ref.placement = group_start == out.size() ? ref.key.hash : out[group_start].key.hash;
    ref.first_block = static_cast<uint32_t>(end) - blocks_per_segment;
    ref.block_count = blocks_per_segment;
    ref.proof = chain.blocks()[end - 1].proof;
    out.push_back(ref);
  }
  return out;
}

Status CheckHeader(const SegmentHeader& header, const SegmentRef& want,
                   std::span<const TokenId> segment_tokens, const LayoutDigest& layout) {
  if (header.key != want.key) return MismatchError("segment answers another key");
  if (header.layout != layout) return MismatchError("segment has another layout");
  if (header.first_block != want.first_block || header.block_count != want.block_count) {
    return MismatchError("segment covers other blocks");
  }
  if (header.proof != want.proof || !std::ranges::equal(header.tokens, segment_tokens)) {
    return MismatchError("segment's proof or tokens differ: hash collision");
  }
  return OkStatus();
}

}  // namespace ember
