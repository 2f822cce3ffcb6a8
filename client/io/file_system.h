// FileSystem: the disk as one loop sees it: opens Files, and makes, lists and removes names. From
// Loop::files(), so that a simulated loop brings its own disk.
//
// Concurrency: the loop's thread only (or before Run). All of it blocks (microseconds to
// milliseconds): for start, region changes and the like, not for each request.
// Errors are those of file.h, and kNotFound when `path` (or a folder of it) doesn't exist.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "client/io/file.h"
#include "proto/base/status.h"

namespace ember::io {

struct OpenOptions {
  bool create = false;  // when it isn't there; needs `write`. The name lasts after SyncFolder.
  bool write = false;   // else read only
  bool direct = false;  // see File::direct
};

struct FolderEntry {
  std::string name;  // within the folder
  bool is_folder = false;
  bool operator==(const FolderEntry&) const = default;
};

struct DiskSpace {
  uint64_t free_bytes = 0;  // that this process may still use
  uint64_t total_bytes = 0;
};

class FileSystem {
 public:
  virtual ~FileSystem() = default;

  virtual Result<std::unique_ptr<File>> Open(const std::string& path, OpenOptions options) = 0;
  // With its parents; OK when it is there already.
  virtual Status MakeFolder(const std::string& path) = 0;
  // A file or an empty folder. An open File stays usable, and its space is used until it dies.
  virtual Status Remove(const std::string& path) = 0;
  // Atomic; replaces a file `to`. Both on the same file system.
  virtual Status Rename(const std::string& from, const std::string& to) = 0;
  // When it is done, the names made, renamed and removed in this folder so far survive a loss of
  // power.
  virtual Status SyncFolder(const std::string& path) = 0;
  // What is in the folder, without "." and "..", by name.
  virtual Result<std::vector<FolderEntry>> List(const std::string& path) = 0;
  // Of the file system that holds `path`.
  virtual Result<DiskSpace> FreeBytes(const std::string& path) = 0;
};

}  // namespace ember::io
