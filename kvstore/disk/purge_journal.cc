#include "kvstore/disk/purge_journal.h"

#include "kvstore/disk/data_directory.h"

namespace ember::kv {
namespace {

constexpr uint64_t kReserveStep = 64 << 10;

std::string FolderOf(const std::string& path) { return path.substr(0, path.rfind('/')); }

}  // namespace

io::Task<Result<std::unique_ptr<PurgeJournal>>> PurgeJournal::Open(io::FileSystem* files,
                                                                   std::string path,
                                                                   bool expected) {
  std::unique_ptr<PurgeJournal> journal(new PurgeJournal(files, path));
  Result<Bytes> bytes = co_await ReadWholeFile(files, path, kMaxPurgesBytes);
  if (bytes.ok()) {
    journal->found_ = DecodePurges(*bytes);
    journal->end_ = journal->found_.end;
    journal->reserved_ = bytes->size();
    auto file = files->Open(path, {.write = true});
    if (!file.ok()) co_return file.status();
    journal->file_ = *std::move(file);
    // A killed process may have left it, or its name, in the page cache only. What is in force from
    // now on must not be forgotten with the power.
    EMBER_CO_RETURN_IF_ERROR(co_await journal->file_->Sync());
    EMBER_CO_RETURN_IF_ERROR(files->SyncFolder(FolderOf(path)));
    co_return journal;
  }
  if (bytes.status().code() != StatusCode::kNotFound) co_return bytes.status();
  journal->found_.damaged = expected ? 1 : 0;
  const Status created = co_await journal->Create({});
  if (!created.ok()) co_return created;
  co_return journal;
}

io::Task<Status> PurgeJournal::Create(std::vector<PurgeRecord> records) {
  Bytes bytes;
  for (const PurgeRecord& record : records) {
    const auto encoded = Encode(record);
    bytes.insert(bytes.end(), encoded.begin(), encoded.end());
  }
  const uint64_t reserved = (bytes.size() / kReserveStep + 1) * kReserveStep;
  const std::string temporary = path_ + ".new";
  auto file = files_->Open(temporary, {.create = true, .write = true});
  if (!file.ok()) co_return file.status();
  EMBER_CO_RETURN_IF_ERROR((*file)->Truncate(0));
  EMBER_CO_RETURN_IF_ERROR((*file)->Allocate(reserved));
  if (!bytes.empty()) {
    const ByteSpan part = bytes;
    EMBER_CO_RETURN_IF_ERROR(co_await (*file)->WriteAt(0, {&part, 1}));
  }
  EMBER_CO_RETURN_IF_ERROR(co_await (*file)->Sync());
  EMBER_CO_RETURN_IF_ERROR(files_->Rename(temporary, path_));
  EMBER_CO_RETURN_IF_ERROR(files_->SyncFolder(FolderOf(path_)));
  file_ = *std::move(file);
  end_ = bytes.size();
  reserved_ = reserved;
  co_return OkStatus();
}

io::Task<Status> PurgeJournal::Rewrite(std::vector<PurgeRecord> records) {
  co_return co_await Create(std::move(records));
}

io::Task<Status> PurgeJournal::Append(PurgeRecord record) {
  const auto bytes = Encode(record);
  const uint64_t at = end_;
  if (at + bytes.size() > reserved_) {
    EMBER_CO_RETURN_IF_ERROR(file_->Allocate(reserved_ + kReserveStep));
    reserved_ += kReserveStep;
  }
  end_ += bytes.size();
  const ByteSpan part = bytes;
  EMBER_CO_RETURN_IF_ERROR(co_await file_->WriteAt(at, {&part, 1}));
  co_return co_await file_->Sync();
}

}  // namespace ember::kv
