// RegionLoader: what a region file holds, from the cheapest source that can be believed: the
// catalog if it knows this use of the region to its end, else the footer, else the records
// themselves from where the catalog ends.
//
// Reads only. Concurrency: the loop's thread only.
#pragma once

#include "client/io/file.h"
#include "kvstore/disk/catalog.h"
#include "kvstore/disk/region_header.h"

namespace ember::kv {

struct LoadedRegion {
  enum class Source { kCatalog, kFooter, kScan };

  RegionHeader header;
  bool header_lost = false;  // the trailer or the catalog has stood in for it
  Source source = Source::kCatalog;
  std::vector<PlacedRecord> records;  // by offset
  bool sealed = false;                // its footer is written, nothing can be appended
  uint64_t end = kBlockBytes;         // where the next record could go
  uint64_t damaged = 0;               // records found torn or changed
  uint64_t scanned_bytes = 0;
};

// `row`: what the catalog says of this region, or null. kNotFound: never used. kMismatch: the file
// is another region's, another directory's, or of a newer format. kCorrupt: its first block is
// damaged, and nothing else says which use of the region this is. Else the disk's error.
io::Task<Result<LoadedRegion>> LoadRegion(io::File* file, uint32_t shard, uint32_t region,
                                          Checksum owner, const CatalogContents::Region* row);

}  // namespace ember::kv
