#include "client/io/posix_file_system.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "client/io/loop_base.h"

namespace ember::io {
namespace {

constexpr mode_t kFileMode = 0600;  // the cache may hold what users typed

int OpenFlags(OpenOptions options) {
  return O_CLOEXEC | (options.write ? O_RDWR : O_RDONLY) | (options.create ? O_CREAT : 0) |
         (options.direct ? O_DIRECT : 0);
}

FileDescriptor OpenPath(const std::string& path, int flags) {
  for (;;) {
    FileDescriptor fd(::open(path.c_str(), flags, kFileMode));
    if (fd.valid() || errno != EINTR) return fd;
  }
}

}  // namespace

Status FileStatus(std::string_view what, int error) {
  std::string message = std::string(what) + ": " + std::strerror(error);
  switch (error) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      return NoSpaceError(std::move(message));
    case ENOENT:
      return NotFoundError(std::move(message));
    case EMFILE:
    case ENFILE:
    case ENOMEM:
    case ENOBUFS:
    case EAGAIN:
      return BusyError(std::move(message));
    case ECANCELED:
      return CancelledError(std::move(message));
    default:
      return UnavailableError(std::move(message));
  }
}

Result<std::unique_ptr<File>> PosixFileSystem::Open(const std::string& path, OpenOptions options) {
  EMBER_CHECK(options.write || !options.create, "a file that is created is written");
  const std::string what = "open " + path;
  FileDescriptor fd = OpenPath(path, OpenFlags(options));
  // EINVAL: the file system has no direct I/O (tmpfs before Linux 6.6, some network and overlay
  // ones).
  if (!fd.valid() && errno == EINVAL && options.direct) {
    options.direct = false;
    fd = OpenPath(path, OpenFlags(options));
  }
  if (!fd.valid()) return FileStatus(what, errno);
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) return FileStatus(what, errno);
  if (S_ISDIR(info.st_mode)) return FileStatus(what, EISDIR);
  return loop_->AdoptFile(std::move(fd), path, options.direct);
}

Status PosixFileSystem::MakeFolder(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  return error ? FileStatus("make folder " + path, error.value()) : OkStatus();
}

Status PosixFileSystem::Remove(const std::string& path) {
  return std::remove(path.c_str()) == 0 ? OkStatus() : FileStatus("remove " + path, errno);
}

Status PosixFileSystem::Rename(const std::string& from, const std::string& to) {
  return std::rename(from.c_str(), to.c_str()) == 0
             ? OkStatus()
             : FileStatus("rename " + from + " to " + to, errno);
}

Status PosixFileSystem::SyncFolder(const std::string& path) {
  const FileDescriptor fd = OpenPath(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (!fd.valid() || ::fsync(fd.get()) != 0) return FileStatus("sync folder " + path, errno);
  return OkStatus();
}

Result<std::vector<FolderEntry>> PosixFileSystem::List(const std::string& path) {
  std::vector<FolderEntry> entries;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(path, error), end; !error && entry != end;
       entry.increment(error)) {
    // An entry that went away meanwhile is no folder.
    std::error_code ignored;
    entries.push_back({entry->path().filename().string(), entry->is_directory(ignored)});
  }
  if (error) return FileStatus("list " + path, error.value());
  std::ranges::sort(entries, {}, &FolderEntry::name);
  return entries;
}

Result<DiskSpace> PosixFileSystem::FreeBytes(const std::string& path) {
  struct statvfs space {};
  if (::statvfs(path.c_str(), &space) != 0) return FileStatus("free space of " + path, errno);
  return DiskSpace{.free_bytes = uint64_t{space.f_bavail} * space.f_frsize,
                   .total_bytes = uint64_t{space.f_blocks} * space.f_frsize};
}

}  // namespace ember::io
