// CatalogWriter: gathers one shard's changes for the catalog and hands them over, one batch at a
// time, in order. Whoever writes data never waits for it.
//
// When the catalog refuses a batch, its changes are kept and tried again; a restart meanwhile reads
// the regions' ends instead. Concurrency: the loop's thread only. Life: Close, awaited, before it
// dies.
#pragma once

#include <coroutine>
#include <memory>

#include "kvstore/disk/catalog.h"
#include "kvstore/disk/disk_metrics.h"

namespace ember::kv {

class CatalogWriter {
 public:
  CatalogWriter(io::Loop* loop, Catalog* catalog, uint32_t shard, DiskMetrics* metrics);
  ~CatalogWriter();

  void PutRegion(uint32_t region, const CatalogRegion& row);
  // With all its records.
  void RemoveRegion(uint32_t region);
  void PutRecord(uint32_t region, const PlacedRecord& record);
  void RemoveRecord(uint32_t region, uint64_t offset);

  // Until everything so far is in the catalog, or the catalog has refused once more.
  io::Task<void> Close();

 private:
  struct Idle;
  size_t Rows(const CatalogBatch& batch) const;
  void NoteRows();
  void Kick();
  void Done(const Status& status, CatalogBatch batch);

  io::Loop* const loop_;
  Catalog* const catalog_;
  const uint32_t shard_;
  DiskMetrics* const metrics_;
  CatalogBatch pending_;
  double noted_rows_ = 0;
  bool kick_posted_ = false;
  bool writing_ = false;
  bool failing_ = false;
  std::coroutine_handle<> closer_;
  std::unique_ptr<io::Loop::Timer> retry_;
  std::shared_ptr<bool> alive_;
};

}  // namespace ember::kv
