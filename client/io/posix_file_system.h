// PosixFileSystem: the FileSystem of the real back ends: system calls for names, and the loop's own
// Files.
#pragma once

#include <string_view>

#include "client/io/file_descriptor.h"
#include "client/io/file_system.h"

namespace ember::io {

class LoopBase;

// "what: system's reason", with the code of file.h that fits the error number.
Status FileStatus(std::string_view what, int error);

class PosixFileSystem final : public FileSystem {
 public:
  explicit PosixFileSystem(LoopBase* loop) : loop_(loop) {}

  Result<std::unique_ptr<File>> Open(const std::string& path, OpenOptions options) override;
  Status MakeFolder(const std::string& path) override;
  Status Remove(const std::string& path) override;
  Status Rename(const std::string& from, const std::string& to) override;
  Status SyncFolder(const std::string& path) override;
  Result<std::vector<FolderEntry>> List(const std::string& path) override;
  Result<DiskSpace> FreeBytes(const std::string& path) override;

 private:
  LoopBase* const loop_;
};

}  // namespace ember::io
