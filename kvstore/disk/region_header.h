// RegionHeader: a region file's first block: which region this is, and which use of it.
//
// Block magic "EREG"; fields: u32 shard, u32 region, u64 generation, u64 sequence, u64 length, 16
// bytes XXH3-128 of the node's identity.
#pragma once

#include "kvstore/disk/record_head.h"

namespace ember::kv {

struct RegionHeader {
  RegionUse use;
  uint64_t sequence = 0;  // grows with each opening in the shard
  uint64_t length = 0;    // of the file
  Checksum owner{};       // of the data directory it belongs to: Identity::Digest

  bool operator==(const RegionHeader&) const = default;
};

void Encode(const RegionHeader& header, MutableByteSpan block);
Result<RegionHeader> DecodeRegionHeader(ByteSpan block);

}  // namespace ember::kv
