#include "kvstore/disk/directory_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

namespace ember::kv {

Result<std::unique_ptr<DirectoryLock>> DirectoryLock::Take(const std::string& directory) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) return UnavailableError(directory + ": " + error.message());
  const std::string path = directory + "/LOCK";
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return UnavailableError(path + ": " + std::strerror(errno));
  std::unique_ptr<DirectoryLock> lock(new DirectoryLock(fd));
  if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return UnavailableError(path + ": " + std::strerror(errno));
    return BusyError(directory + " is in use by another process: stop that one first");
  }
  return lock;
}

DirectoryLock::~DirectoryLock() { close(fd_); }

}  // namespace ember::kv
