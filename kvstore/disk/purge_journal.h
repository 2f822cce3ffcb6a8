// PurgeJournal: a shard's purges on disk, so that what was purged stays away after a restart, even
// when the catalog is lost and the regions are read again.
//
// An append is durable when it returns. Space is reserved ahead, so that a full disk doesn't keep a
// purge from being acknowledged. Concurrency: the loop's thread only.
#pragma once

#include <memory>
#include <string>

#include "client/io/file_system.h"
#include "kvstore/disk/purge_record.h"

namespace ember::kv {

class PurgeJournal {
 public:
  // Opens or makes it. `expected`: there was one, so a missing file counts as damage.
  static io::Task<Result<std::unique_ptr<PurgeJournal>>> Open(io::FileSystem* files,
                                                              std::string path, bool expected);

  // What was in it when it was opened.
  const std::vector<PurgeRecord>& found() const { return found_.records; }
  // A purge may have been lost.
  bool damaged() const { return found_.damaged > 0; }

  io::Task<Status> Append(PurgeRecord record);
  // Replaces all of it, atomically. No Append at the same time.
  io::Task<Status> Rewrite(std::vector<PurgeRecord> records);

 private:
  PurgeJournal(io::FileSystem* files, std::string path) : files_(files), path_(std::move(path)) {}
  io::Task<Status> Create(std::vector<PurgeRecord> records);

  io::FileSystem* const files_;
  const std::string path_;
  std::unique_ptr<io::File> file_;
  PurgeList found_;
  uint64_t end_ = 0;
  uint64_t reserved_ = 0;
};

}  // namespace ember::kv
