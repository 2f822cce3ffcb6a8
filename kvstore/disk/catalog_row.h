// Rows of the catalog as bytes. Keys sort by shard, region and place: big-endian u32 shard, u32
// region, then for a record its u64 offset. A region's own row has only the first two.
#pragma once

#include <string>

#include "kvstore/disk/catalog.h"

namespace ember::kv {

std::string RegionRowKey(uint32_t shard, uint32_t region);
std::string RecordRowKey(uint32_t shard, uint32_t region, uint64_t offset);
std::string EncodeRow(const CatalogRegion& region);
std::string EncodeRow(const SegmentRecord& record);

// Adds the row to `contents[shard]`. kCorrupt when it is none.
Status AddRow(std::string_view key, std::string_view value,
              std::map<uint32_t, CatalogContents>* contents);

}  // namespace ember::kv
