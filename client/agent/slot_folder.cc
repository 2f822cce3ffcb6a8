#include "client/agent/slot_folder.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

namespace ember::agent {
namespace {
Status SystemError(const std::string& what) {
  const int error = errno;
  const std::string message = what + ": " + std::strerror(error);
  return error == ENOENT ? NotFoundError(message) : UnavailableError(message);
}
}  // namespace

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

SlotFolder::SlotFolder(SlotFolder&& other) noexcept
    : path_(std::move(other.path_)),
      prefix_(std::move(other.prefix_)),
      on_tmpfs_(other.on_tmpfs_),
      next_(other.next_.load()) {}

Result<SlotFolder> SlotFolder::Open(std::string path, std::string_view replica_id) {
  const bool plain = !replica_id.empty() && replica_id.size() <= 64 &&
                     replica_id.find_first_not_of(
                         "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                         "0123456789._-") == std::string_view::npos;
  if (!plain) return InvalidError("a replica id is 1 to 64 letters, digits and . _ -");
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return SystemError("slot folder " + path);
  if (!S_ISDIR(info.st_mode)) return NotFoundError("slot folder " + path + ": not a folder");
  SlotFolder out;
  out.path_ = std::move(path);
  out.prefix_ = "ember-" + std::string(replica_id) + "-";
  struct statfs fs {};
  out.on_tmpfs_ = ::statfs(out.path_.c_str(), &fs) == 0 && fs.f_type == TMPFS_MAGIC;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(out.path_, error)) {
    const std::string name = entry.path().filename();
    const bool ours =
        name.starts_with(out.prefix_ + "save-") || name.starts_with(out.prefix_ + "restore-");
    if (ours) std::filesystem::remove(entry.path(), error);
  }
  return out;
}

std::string SlotFolder::NewSaveName() const {
  return prefix_ + "save-" + std::to_string(::getpid()) + "-" + std::to_string(next_++) + ".bin";
}

Result<MappedFile> SlotFolder::Take(const std::string& name) const {
  Result<MappedFile> out = Map(name);
  Remove(name);
  return out;
}

Result<MappedFile> SlotFolder::Map(const std::string& name) const {
  const std::string path = path_ + "/" + name;
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return SystemError("slot file " + path);
  struct stat info {};
  MappedFile out;
  Status status;
  if (::fstat(fd, &info) != 0 || !S_ISREG(info.st_mode) || info.st_size == 0) {
    status = CorruptError("slot file " + path + ": empty or not a file");
  } else {
    void* data = ::mmap(nullptr, static_cast<size_t>(info.st_size), PROT_READ, MAP_SHARED, fd, 0);
    if (data == MAP_FAILED) {
      status = SystemError("map slot file " + path);
    } else {
      out.data_ = static_cast<const std::byte*>(data);
      out.size_ = static_cast<size_t>(info.st_size);
    }
  }
  ::close(fd);
  if (!status.ok()) return status;
  return out;
}

void SlotFolder::Remove(const std::string& name) const { ::unlink((path_ + "/" + name).c_str()); }

std::string SlotFolder::RestoreName(uint32_t slot) const {
  return prefix_ + "restore-" + std::to_string(slot) + ".bin";
}

Result<int> SlotFolder::OpenRestoreFile(uint32_t slot) const {
  const std::string path = path_ + "/" + RestoreName(slot);
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
  if (fd < 0) return SystemError("slot file " + path);
  return fd;
}

}  // namespace ember::agent
