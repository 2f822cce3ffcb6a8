// MemoryCatalog: a Catalog without a file, that a test reads, loses and lets fail. What one run has
// written the next one finds. The loops of many shards may use it; its fields, tests while none
// does.
#pragma once

#include <mutex>

#include "kvstore/disk/catalog.h"

namespace ember::kv::testing {

class MemoryCatalog final : public Catalog {
 public:
  CatalogContents TakeContents(uint32_t shard) override {
    const std::lock_guard lock(mutex_);
    return contents[shard];
  }
  void Write(io::Loop* loop, CatalogBatch batch, std::function<void(Status)> done) override {
    if (failing) {
      loop->Post([done] { done(UnavailableError("the test says no")); });
      return;
    }
    if (!frozen) Apply(batch);
    loop->Post([done] { done(OkStatus()); });
  }

  std::map<uint32_t, CatalogContents> contents;
  bool frozen = false;  // says yes and keeps nothing: a catalog that is behind
  bool failing = false;

 private:
  void Apply(const CatalogBatch& batch) {
    const std::lock_guard lock(mutex_);
    CatalogContents& mine = contents[batch.shard];
    for (uint32_t region : batch.removed_regions) mine.regions.erase(region);
    for (const auto& [region, offset] : batch.removed_records) {
      std::erase_if(mine.regions[region].records,
                    [&](const PlacedRecord& r) { return r.offset == offset; });
    }
    for (const auto& [region, row] : batch.regions) mine.regions[region].row = row;
    for (const auto& [region, record] : batch.records) {
      auto& records = mine.regions[region].records;
      std::erase_if(records, [&](const PlacedRecord& r) { return r.offset == record.offset; });
      records.push_back(record);
    }
  }

  std::mutex mutex_;
};

}  // namespace ember::kv::testing
