#include "kvstore/disk/rocks_catalog.h"

#include <rocksdb/cache.h>
#include <rocksdb/db.h>
#include <rocksdb/table.h>
#include <rocksdb/write_batch.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <filesystem>
#include <mutex>
#include <thread>

#include "kvstore/disk/catalog_row.h"

namespace ember::kv {
namespace {

// Little of everything: the catalog is written in small batches and read once, at the start.
rocksdb::Options SmallOptions() {
  rocksdb::Options options;
  options.write_buffer_size = 1 << 20;
  options.max_write_buffer_number = 2;
  options.max_total_wal_size = 8 << 20;
  options.max_open_files = 64;
  options.max_background_jobs = 1;
  options.compression = rocksdb::kNoCompression;
  options.stats_dump_period_sec = 0;
  options.stats_persist_period_sec = 0;
  options.keep_log_file_num = 2;
  options.info_log_level = rocksdb::WARN_LEVEL;
  rocksdb::BlockBasedTableOptions table;
  table.block_cache = rocksdb::NewLRUCache(512 << 10);
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  return options;
}

// RocksDB must not meet a full disk: it may end the process then, and does not open without room to
// write. Region files leave 1 % of the file system free, at most 256 MiB.
bool HasRoom(const std::string& folder) {
  constexpr uint64_t kLeast = 4 << 20, kMost = 64 << 20;
  std::error_code error;
  const auto space = std::filesystem::space(std::filesystem::path(folder).parent_path(), error);
  return error || space.available >= std::clamp<uint64_t>(space.capacity / 200, kLeast, kMost);
}

class NoLog final : public rocksdb::Logger {
 public:
  using rocksdb::Logger::Logv;
  void Logv(const char*, va_list) override {}
};

Status ToStatus(const rocksdb::Status& status) {
  if (status.ok()) return OkStatus();
  if (status.IsCorruption()) return CorruptError("catalog: " + status.ToString());
  if (status.IsNoSpace()) return NoSpaceError("catalog: " + status.ToString());
  return UnavailableError("catalog: " + status.ToString());
}

Status ReadAll(rocksdb::DB* db, std::map<uint32_t, CatalogContents>* contents) {
  rocksdb::ReadOptions options;
  options.fill_cache = false;
  const std::unique_ptr<rocksdb::Iterator> it(db->NewIterator(options));
  for (it->SeekToFirst(); it->Valid(); it->Next()) {
    EMBER_RETURN_IF_ERROR(AddRow(it->key().ToStringView(), it->value().ToStringView(), contents));
  }
  return ToStatus(it->status());
}

rocksdb::WriteBatch Encoded(const CatalogBatch& batch) {
  rocksdb::WriteBatch out;
  const uint32_t shard = batch.shard;
  for (uint32_t region : batch.removed_regions) {
    // A region's own row sorts before its records, the next region's after them.
    const std::string end =
        region == UINT32_MAX ? RegionRowKey(shard + 1, 0) : RegionRowKey(shard, region + 1);
    out.DeleteRange(RegionRowKey(shard, region), end);
  }
  for (const auto& [region, offset] : batch.removed_records) {
    out.Delete(RecordRowKey(shard, region, offset));
  }
  for (const auto& [region, row] : batch.regions) {
    out.Put(RegionRowKey(shard, region), EncodeRow(row));
  }
  for (const auto& [region, record] : batch.records) {
    out.Put(RecordRowKey(shard, region, record.offset), EncodeRow(record.segment));
  }
  return out;
}

Result<std::unique_ptr<rocksdb::DB>> OpenDatabase(const std::string& folder,
                                                  std::map<uint32_t, CatalogContents>* contents) {
  rocksdb::Options options = SmallOptions();
  options.create_if_missing = true;
  rocksdb::DB* raw = nullptr;
  EMBER_RETURN_IF_ERROR(ToStatus(rocksdb::DB::Open(options, folder, &raw)));
  std::unique_ptr<rocksdb::DB> db(raw);
  EMBER_RETURN_IF_ERROR(ReadAll(db.get(), contents));
  return db;
}

}  // namespace

struct RocksCatalog::Impl {
  struct Job {
    io::Loop* loop;
    CatalogBatch batch;
    std::function<void(Status)> done;
  };

  std::string folder;
  std::unique_ptr<rocksdb::DB> db;  // null: not open yet, for the disk is full
  std::mutex mutex;
  std::condition_variable changed;
  std::map<uint32_t, CatalogContents> contents;
  std::deque<Job> jobs;
  bool ending = false;
  std::thread thread;

  Status Apply(const CatalogBatch& changes) {
    if (!HasRoom(folder)) return NoSpaceError("catalog: the file system is full");
    if (db == nullptr) {
      std::map<uint32_t, CatalogContents> known;
      auto opened = OpenDatabase(folder, &known);
      if (!opened.ok()) return opened.status();
      db = *std::move(opened);
    }
    rocksdb::WriteBatch batch = Encoded(changes);
    return ToStatus(db->Write(rocksdb::WriteOptions(), &batch));
  }

  void Run() {
    for (;;) {
      std::unique_lock lock(mutex);
      changed.wait(lock, [this] { return ending || !jobs.empty(); });
      if (jobs.empty()) return;
      Job job = std::move(jobs.front());
      jobs.pop_front();
      lock.unlock();
      const Status status = Apply(job.batch);
      job.loop->Post([done = std::move(job.done), status] { done(status); });
    }
  }
};

RocksCatalog::RocksCatalog(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {
  impl_->thread = std::thread([this] { impl_->Run(); });
}

RocksCatalog::~RocksCatalog() {
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->ending = true;
  }
  impl_->changed.notify_one();
  impl_->thread.join();
}

Result<std::unique_ptr<RocksCatalog>> RocksCatalog::Open(const std::string& folder,
                                                         std::string* lost) {
  auto impl = std::make_unique<Impl>();
  impl->folder = folder;
  if (!HasRoom(folder)) {
    // Nothing is wrong with it, and reading needs no room.
    if (auto read = Read(folder); read.ok()) impl->contents = *std::move(read);
    return std::unique_ptr<RocksCatalog>(new RocksCatalog(std::move(impl)));
  }
  auto db = OpenDatabase(folder, &impl->contents);
  if (!db.ok()) {
    *lost = db.status().message();
    impl->contents.clear();
    EMBER_RETURN_IF_ERROR(MoveAside(folder));
    db = OpenDatabase(folder, &impl->contents);
    if (!db.ok()) return db.status();
  }
  impl->db = *std::move(db);
  return std::unique_ptr<RocksCatalog>(new RocksCatalog(std::move(impl)));
}

Status RocksCatalog::MoveAside(const std::string& folder) {
  std::error_code error;
  if (!std::filesystem::exists(folder, error)) return OkStatus();
  const std::string to = folder + ".bad";
  std::filesystem::remove_all(to, error);
  std::filesystem::rename(folder, to, error);
  if (error) return UnavailableError("moving " + folder + " aside: " + error.message());
  return OkStatus();
}

Result<std::map<uint32_t, CatalogContents>> RocksCatalog::Read(const std::string& folder) {
  std::error_code error;
  if (!std::filesystem::exists(folder, error)) return NotFoundError("there is no catalog");
  rocksdb::Options options = SmallOptions();
  options.info_log = std::make_shared<NoLog>();  // reading leaves no trace
  rocksdb::DB* raw = nullptr;
  const rocksdb::Status opened = rocksdb::DB::OpenForReadOnly(options, folder, &raw);
  if (!opened.ok()) return CorruptError("catalog: " + opened.ToString());
  const std::unique_ptr<rocksdb::DB> db(raw);
  std::map<uint32_t, CatalogContents> contents;
  EMBER_RETURN_IF_ERROR(ReadAll(db.get(), &contents));
  return contents;
}

CatalogContents RocksCatalog::TakeContents(uint32_t shard) {
  const std::lock_guard lock(impl_->mutex);
  return std::exchange(impl_->contents[shard], {});
}

void RocksCatalog::Write(io::Loop* loop, CatalogBatch batch, std::function<void(Status)> done) {
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->jobs.push_back({loop, std::move(batch), std::move(done)});
  }
  impl_->changed.notify_one();
}

}  // namespace ember::kv
