#include "kvstore/disk/catalog_writer.h"

#include <spdlog/spdlog.h>

namespace ember::kv {
namespace {

constexpr Duration kRetry = seconds(1);

}  // namespace

CatalogWriter::CatalogWriter(io::Loop* loop, Catalog* catalog, uint32_t shard, DiskMetrics* metrics)
    : loop_(loop),
      catalog_(catalog),
      shard_(shard),
      metrics_(metrics),
      alive_(std::make_shared<bool>(true)) {
  pending_.shard = shard;
}

CatalogWriter::~CatalogWriter() {
  *alive_ = false;
  metrics_->catalog_behind.Add(-noted_rows_);
}

void CatalogWriter::PutRegion(uint32_t region, const CatalogRegion& row) {
  pending_.regions[region] = row;
  Kick();
}

void CatalogWriter::RemoveRegion(uint32_t region) {
  std::erase_if(pending_.records, [&](const auto& r) { return r.first == region; });
  std::erase_if(pending_.removed_records, [&](const auto& r) { return r.first == region; });
  pending_.regions.erase(region);
  pending_.removed_regions.push_back(region);
  Kick();
}

void CatalogWriter::PutRecord(uint32_t region, const PlacedRecord& record) {
  pending_.records.emplace_back(region, record);
  Kick();
}

void CatalogWriter::RemoveRecord(uint32_t region, uint64_t offset) {
  std::erase_if(pending_.records,
                [&](const auto& r) { return r.first == region && r.second.offset == offset; });
  pending_.removed_records.emplace_back(region, offset);
  Kick();
}

size_t CatalogWriter::Rows(const CatalogBatch& batch) const {
  return batch.removed_regions.size() + batch.removed_records.size() + batch.regions.size() +
         batch.records.size();
}

void CatalogWriter::NoteRows() {
  const auto rows = static_cast<double>(Rows(pending_));
  metrics_->catalog_behind.Add(rows - std::exchange(noted_rows_, rows));
}

// Posted, so that the changes of one moment make one batch.
void CatalogWriter::Kick() {
  NoteRows();
  if (kick_posted_ || writing_ || failing_) return;
  kick_posted_ = true;
  loop_->Post([this, alive = alive_] {
    if (!*alive) return;
    kick_posted_ = false;
    if (pending_.empty() || writing_ || failing_) return;
    writing_ = true;
    CatalogBatch batch = std::exchange(pending_, {.shard = shard_});
    NoteRows();
    // Kept until it is known to be written.
    auto kept = std::make_shared<CatalogBatch>(batch);
    catalog_->Write(loop_, std::move(batch), [this, alive, kept](Status status) {
      if (*alive) Done(status, std::move(*kept));
    });
  });
}

void CatalogWriter::Done(const Status& status, CatalogBatch batch) {
  writing_ = false;
  if (!status.ok()) {
    if (!std::exchange(failing_, true)) {
      spdlog::warn("catalog refuses shard={} reason=\"{}\"", shard_, status.ToString());
    }
    // In front of what has come meanwhile: the newer change of a row is the one that counts.
    CatalogBatch newer = std::exchange(pending_, std::move(batch));
    for (uint32_t region : newer.removed_regions) RemoveRegion(region);
    for (const auto& [region, offset] : newer.removed_records) RemoveRecord(region, offset);
    for (const auto& [region, row] : newer.regions) PutRegion(region, row);
    for (const auto& [region, record] : newer.records) PutRecord(region, record);
    retry_ = loop_->StartTimer(loop_->Now() + kRetry, [this] {
      failing_ = false;
      Kick();
    });
  } else if (!pending_.empty()) {
    Kick();
    return;
  }
  if (closer_) std::exchange(closer_, nullptr).resume();
}

struct CatalogWriter::Idle {
  CatalogWriter* writer;
  bool await_ready() const {
    return writer->failing_ || (writer->pending_.empty() && !writer->writing_);
  }
  void await_suspend(std::coroutine_handle<> caller) { writer->closer_ = caller; }
  void await_resume() {}
};

io::Task<void> CatalogWriter::Close() {
  Kick();
  co_await Idle{this};
  retry_.reset();
}

}  // namespace ember::kv
