// RecordHead: the block before each segment on disk, which says what follows and where it belongs.
//
// A record is this block and then the segment as it lies in memory: payload, encoded SegmentHeader,
// zeros up to a whole block. Region, generation and offset tell a record that belongs here from one
// of an earlier use of the region, of another region, or of another node's disk. Block magic
// "EREC"; fields: u32 shard, u32 region, u64 region generation, u64 offset, the SegmentRecord, 16
// bytes XXH3-128 of the payload.
#pragma once

#include "kvstore/disk/block.h"
#include "kvstore/engine/segment_record.h"

namespace ember::kv {

// One use of one region: the generation is random for each.
struct RegionUse {
  uint32_t shard = 0;
  uint32_t region = 0;
  uint64_t generation = 0;
  bool operator==(const RegionUse&) const = default;
};

struct RecordHead {
  RegionUse use;
  uint64_t offset = 0;  // of this block, in the region
  SegmentRecord segment;
  Checksum checksum{};  // of the payload

  // Bytes of the record's body on disk, and of the whole record.
  uint64_t body_bytes() const { return BodyBytes(segment); }
  uint64_t record_bytes() const { return kBlockBytes + body_bytes(); }
  static uint64_t BodyBytes(const SegmentRecord& segment) {
    return RoundUpToBlocks(uint64_t{segment.payload_length} + segment.header_length);
  }
  bool operator==(const RecordHead&) const = default;
};

void Encode(const RecordHead& head, MutableByteSpan block);
// kNotFound, kCorrupt, kMismatch as OpenBlock; kInvalid: lengths that no segment has.
Result<RecordHead> DecodeRecordHead(ByteSpan block);

// The SegmentRecord in 80 bytes, as heads, footers and the catalog hold it.
inline constexpr size_t kSegmentRecordBytes = 80;
void Put(ByteWriter* writer, const SegmentRecord& record);
// Fails the reader when a length is one that no segment has.
SegmentRecord GetSegmentRecord(ByteReader* reader);

}  // namespace ember::kv
