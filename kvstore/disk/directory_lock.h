// DirectoryLock: at most one process uses a data directory. An advisory lock (flock) on its file
// LOCK; the kernel gives it back when the process ends, however it ends.
//
// Any thread. Blocking, so it is taken before any loop runs.
#pragma once

#include <memory>
#include <string>

#include "proto/base/status.h"

namespace ember::kv {

class DirectoryLock {
 public:
  // Makes the directory and its LOCK if they aren't there. kBusy: another process has it. Else the
  // system's reason, such as a read-only file system.
  static Result<std::unique_ptr<DirectoryLock>> Take(const std::string& directory);
  ~DirectoryLock();
  DirectoryLock(const DirectoryLock&) = delete;
  DirectoryLock& operator=(const DirectoryLock&) = delete;

 private:
  explicit DirectoryLock(int fd) : fd_(fd) {}
  const int fd_;
};

}  // namespace ember::kv
