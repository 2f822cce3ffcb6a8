// Segment: a run of consecutive blocks of one chain moved as one payload; SegmentHeader: what the
// payload says of itself, checked at load.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "proto/base/checksum.h"
#include "proto/model/block_hash.h"
#include "proto/model/kv_layout.h"

namespace ember {

// A put's random id; copies of one generation are bit-equal.
struct GenerationId {
  uint64_t high = 0;
  uint64_t low = 0;
  auto operator<=>(const GenerationId&) const = default;
};

// Encoded as: u32 magic "ESEG", u16 format, the fields in the order below, u64 XXH3 of all before
// it.
struct SegmentHeader {
  BlockKey key;              // of the last block: it names the whole prefix up to here
  BlockHash placement;       // of the placement group's first segment: decides the owners
  uint32_t first_block = 0;  // index in the chain
  uint32_t block_count = 0;
  ChainProof proof{};           // of the last block
  std::vector<TokenId> tokens;  // of the segment's own blocks
  LayoutDigest layout{};
  uint32_t rank = 0;
  uint32_t rank_count = 1;
  uint64_t payload_length = 0;          // bytes
  Checksum checksum{};                  // XXH3-128 of the payload
  std::vector<uint64_t> layer_offsets;  // byte offset of each layer in the payload; may be empty
  std::string writer;                   // who made it, for people
  GenerationId generation;
  std::string tenant;

  bool operator==(const SegmentHeader&) const = default;
};

inline constexpr size_t kMaxSegmentHeaderBytes = 64 << 10;
inline constexpr uint32_t kMaxTokensPerSegment = 8192;
inline constexpr size_t kMaxNameBytes = 256;  // writer, tenant

Bytes Encode(const SegmentHeader& header);
// kInvalid when truncated, oversized or of another format; kCorrupt when its own checksum differs.
Result<SegmentHeader> DecodeSegmentHeader(ByteSpan bytes);

// Where the chain is cut. All readers and writers cut at the same multiples, so duplicates meet.
struct SegmentRef {
  BlockKey key;
  BlockHash placement;
  uint32_t first_block = 0;
  uint32_t block_count = 0;
  ChainProof proof{};
};

// The fewest whole blocks that reach 64 tokens.
uint32_t BlocksPerSegment(uint32_t tokens_per_block);

// Segments of a placement group: those that start within the same 4,096 tokens share their owners.
inline constexpr uint32_t kTokensPerPlacementGroup = 4096;

// The chain's whole segments, from the start; a last partial segment is left out.
std::vector<SegmentRef> CutSegments(const HashChain& chain);

// What a reader requires of a header before it believes the bytes: the key, the proof (so a crafted
// hash collision is a miss), the token ids and the layout. kMismatch says what differs.
Status CheckHeader(const SegmentHeader& header, const SegmentRef& want,
                   std::span<const TokenId> segment_tokens, const LayoutDigest& layout);

}  // namespace ember
