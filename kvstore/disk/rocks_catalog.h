// RocksCatalog: the Catalog in a RocksDB, written by one thread of its own.
//
// Opening reads all of it, so a damaged database is found then: it is moved aside as catalog.bad
// (the last one is kept) and a new one begun, and the shards read their regions instead. On a full
// disk it is read only, and writes are refused until there is room. Writes are not synced: after a
// loss of power the catalog is an earlier one, which the regions complete.
// Concurrency: any thread. The destructor writes what is queued, and waits for it.
#pragma once

#include <memory>
#include <string>

#include "kvstore/disk/catalog.h"

namespace ember::kv {

class RocksCatalog final : public Catalog {
 public:
  // Blocking. `lost`: why what was there is not used any more, or empty. Errors: not even a new one
  // can be made.
  static Result<std::unique_ptr<RocksCatalog>> Open(const std::string& folder, std::string* lost);
  // Of a database that nobody writes; changes nothing. kNotFound when there is none, kCorrupt when
  // it is damaged.
  static Result<std::map<uint32_t, CatalogContents>> Read(const std::string& folder);
  // Moves the database aside as FOLDER.bad, in the place of an earlier one. OK when there is none.
  static Status MoveAside(const std::string& folder);
  ~RocksCatalog() override;

  CatalogContents TakeContents(uint32_t shard) override;
  void Write(io::Loop* loop, CatalogBatch batch, std::function<void(Status)> done) override;

 private:
  struct Impl;
  explicit RocksCatalog(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

}  // namespace ember::kv
