// Catalog: what lies in the regions, kept so that a start reads one small database instead of all
// regions. Never the only copy of anything: the regions describe themselves.
//
// Rows are named by place (shard, region, offset), not by key: keys are looked up in memory, and a
// region leaves the catalog by one deletion of a range. One for a node; every shard uses it from
// its own thread.
#pragma once

#include <functional>
#include <map>
#include <vector>

#include "client/io/loop.h"
#include "kvstore/disk/region_footer.h"

namespace ember::kv {

struct CatalogRegion {
  uint64_t generation = 0;
  uint64_t sequence = 0;
  // Every record whose head lies before this offset is in the catalog.
  uint64_t catalogued = 0;
  bool sealed = false;  // and its footer is written
  bool operator==(const CatalogRegion&) const = default;
};

// What one shard had in the catalog.
struct CatalogContents {
  struct Region {
    CatalogRegion row;
    std::vector<PlacedRecord> records;
  };
  std::map<uint32_t, Region> regions;
};

// Changes of one shard that become durable together, in this order: regions removed with all their
// records, records removed, regions and records written.
struct CatalogBatch {
  uint32_t shard = 0;
  std::vector<uint32_t> removed_regions;
  std::vector<std::pair<uint32_t, uint64_t>> removed_records;  // region, offset
  std::map<uint32_t, CatalogRegion> regions;
  std::vector<std::pair<uint32_t, PlacedRecord>> records;

  bool empty() const {
    return removed_regions.empty() && removed_records.empty() && regions.empty() && records.empty();
  }
};

class Catalog {
 public:
  virtual ~Catalog() = default;

  // As it was when this process started; once for a shard. Empty when it was new or lost.
  virtual CatalogContents TakeContents(uint32_t shard) = 0;
  // Applies the batch; batches of one shard in the order of the calls. `done` runs on `loop`.
  virtual void Write(io::Loop* loop, CatalogBatch batch, std::function<void(Status)> done) = 0;
};

}  // namespace ember::kv
