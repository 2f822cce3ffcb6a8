// RegionFooter: the list of a sealed region's records, so that a lost catalog costs one read a
// region and not a read of everything.
//
// It begins on a block after the last record: u32 magic "EFTR", u32 count, then for each record u64
// offset and the SegmentRecord; padded with zeros. The file's last block points to it: magic
// "ETRL"; fields: u32 shard, u32 region, u64 generation, u64 footer offset, u64 footer length
// before padding, 16 bytes XXH3-128 of the footer.
#pragma once

#include <optional>
#include <vector>

#include "kvstore/disk/record_head.h"

namespace ember::kv {

struct PlacedRecord {
  uint64_t offset = 0;  // of the record's head block
  SegmentRecord segment;
  bool operator==(const PlacedRecord&) const = default;
};

struct RegionTrailer {
  RegionUse use;
  uint64_t footer_offset = 0;
  uint64_t footer_length = 0;
  Checksum checksum{};
  bool operator==(const RegionTrailer&) const = default;
};

// Bytes on disk of a footer for so many records, padding included.
uint64_t FooterBytes(size_t records);

Bytes EncodeFooter(std::span<const PlacedRecord> records);
// kCorrupt when it isn't what the trailer's checksum says.
Result<std::vector<PlacedRecord>> DecodeFooter(ByteSpan footer, const Checksum& checksum);

void Encode(const RegionTrailer& trailer, MutableByteSpan block);
// kCorrupt also when it points outside a region of `region_bytes`.
Result<RegionTrailer> DecodeRegionTrailer(ByteSpan block, uint64_t region_bytes);

}  // namespace ember::kv
