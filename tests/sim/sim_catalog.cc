#include "tests/sim/sim_catalog.h"

#include <algorithm>
#include <iterator>

namespace ember::sim {

class SimCatalog::Mounted final : public kv::Catalog {
 public:
  explicit Mounted(SimCatalog* store) : store_(store), losses_(store->losses_) {}

  kv::CatalogContents TakeContents(uint32_t shard) override { return store_->Read(shard); }
  void Write(io::Loop* loop, kv::CatalogBatch batch, std::function<void(Status)> done) override {
    Simulation* simulation = store_->simulation_;
    Status status;
    if (store_->losses_ != losses_) {
      status = UnavailableError("catalog: no such device");
    } else if (simulation->dice().Chance(store_->refuse)) {
      store_->Count(DiskFault::kWriteError);
      status = UnavailableError("catalog: input/output error");
    } else {
      store_->Write(std::move(batch));
    }
    // In order, whatever each takes.
    done_at_ = std::max(done_at_, simulation->Now()) +
               simulation->dice().Between(microseconds(5), microseconds(500));
    simulation->At(done_at_, loop, [loop, done = std::move(done), status] {
      loop->Post([done, status] { done(status); });
    });
  }

 private:
  SimCatalog* const store_;
  const uint64_t losses_;
  TimePoint done_at_{};
};

std::unique_ptr<kv::Catalog> SimCatalog::Mount() { return std::make_unique<Mounted>(this); }

void SimCatalog::Apply(const kv::CatalogBatch& batch, Contents* contents) {
  kv::CatalogContents& mine = (*contents)[batch.shard];
  const auto erase = [&](uint32_t region, uint64_t offset) {
    auto it = mine.regions.find(region);
    if (it == mine.regions.end()) return;
    std::erase_if(it->second.records, [&](const auto& r) { return r.offset == offset; });
  };
  for (uint32_t region : batch.removed_regions) mine.regions.erase(region);
  for (const auto& [region, offset] : batch.removed_records) erase(region, offset);
  for (const auto& [region, row] : batch.regions) mine.regions[region].row = row;
  for (const auto& [region, record] : batch.records) {
    erase(region, record.offset);
    mine.regions[region].records.push_back(record);
  }
}

kv::CatalogContents SimCatalog::Read(uint32_t shard) const {
  Contents contents = flushed_;
  for (const kv::CatalogBatch& batch : log_) Apply(batch, &contents);
  return contents[shard];
}

void SimCatalog::Write(kv::CatalogBatch batch) {
  log_.push_back(std::move(batch));
  if (!simulation_->dice().Chance(0.1)) return;
  for (const kv::CatalogBatch& flushed : log_) Apply(flushed, &flushed_);
  log_.clear();
}

void SimCatalog::LosePower() {
  ++losses_;
  log_.resize(simulation_->dice().Below(log_.size() + 1));
}

void SimCatalog::Lose() {
  Count(DiskFault::kLostWrite);
  flushed_.clear();
  log_.clear();
}

void SimCatalog::Damage(int rows) {
  for (const kv::CatalogBatch& batch : log_) Apply(batch, &flushed_);
  log_.clear();
  for (auto& [shard, contents] : flushed_) {
    for (int i = 0; i < rows && !contents.regions.empty(); ++i) DamageOne(&contents);
  }
}

void SimCatalog::DamageOne(kv::CatalogContents* contents) {
  Dice& dice = simulation_->dice();
  auto region = std::next(contents->regions.begin(),
                          static_cast<ptrdiff_t>(dice.Below(contents->regions.size())));
  kv::CatalogRegion& row = region->second.row;
  std::vector<kv::PlacedRecord>& records = region->second.records;
  const auto elsewhere = [&] { return dice.Between(1, 64) * 4096; };
  if (records.empty() || dice.Chance(0.2)) {
    switch (dice.Below(4)) {
      case 0:
        contents->regions.erase(region);
        return Count(DiskFault::kLostWrite);
      case 1:
        row.generation ^= 1ull << dice.Below(64);
        return Count(DiskFault::kBitFlip);
      case 2:
        row.catalogued = elsewhere();
        return Count(DiskFault::kStaleRead);
      default:
        row.sealed = !row.sealed;
        return Count(DiskFault::kBitFlip);
    }
  }
  const size_t index = dice.Below(records.size());
  kv::PlacedRecord& record = records[index];
  switch (dice.Below(6)) {
    case 0:
      records.erase(records.begin() + static_cast<ptrdiff_t>(index));
      return Count(DiskFault::kLostWrite);
    case 1:
      record.offset = elsewhere();
      return Count(DiskFault::kMisdirectedWrite);
    case 2:
      record.segment.payload_length = static_cast<uint32_t>(1 + dice.Below(100000));
      return Count(DiskFault::kBitFlip);
    case 3:
      record.segment.key.hash.bytes[dice.Below(16)] ^= std::byte{1};
      return Count(DiskFault::kBitFlip);
    case 4:
      record.segment.generation.low ^= 1ull << 63;
      return Count(DiskFault::kBitFlip);
    default:
      record.segment.header_length = static_cast<uint32_t>(1 + dice.Below(5000));
      return Count(DiskFault::kBitFlip);
  }
}

}  // namespace ember::sim
