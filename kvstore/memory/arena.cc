#include "kvstore/memory/arena.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace ember::kv {
namespace {

// How much is made present at once, ahead of its first use.
constexpr uint64_t kPopulateStep = 2 << 20;

Status SystemError(const char* what) {
  const int error = errno;
  std::string message = std::string(what) + ": " + std::strerror(error);
  return error == ENOMEM || error == ENOSPC ? NoSpaceError(std::move(message))
                                            : UnavailableError(std::move(message));
}

uint64_t PhysicalMemory() {
  return static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) *
         static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

}  // namespace

Result<std::unique_ptr<Arena>> Arena::Make(uint64_t capacity, bool prealloc) {
  capacity = capacity / kGranule * kGranule;
  if (capacity == 0) return InvalidError("segment memory of less than one page");
  const uint64_t machine = PhysicalMemory();
  if (capacity > machine) {
    return NoSpaceError("segment memory of " + std::to_string(capacity >> 20) +
                        " MiB, but the machine has " + std::to_string(machine >> 20) + " MiB");
  }
  const int fd = memfd_create("ember-arena", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0) return SystemError("memfd_create");
  // With the arena below owning it, every later return frees the descriptor and the mapping.
  if (ftruncate(fd, static_cast<off_t>(capacity)) != 0) {
    const Status error = SystemError("ftruncate of segment memory");
    close(fd);
    return error;
  }
  void* base = mmap(nullptr, capacity, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
  if (base == MAP_FAILED) {
    const Status error = SystemError("mmap of segment memory");
    close(fd);
    return error;
  }
  std::unique_ptr<Arena> arena(new Arena(fd, static_cast<std::byte*>(base), capacity));
  // Advice only: a kernel without huge pages for shared memory says no, and small pages do.
  (void)madvise(base, capacity, MADV_HUGEPAGE);
  // Segments must not be in core dumps: they are large, and other people's prompts.
  (void)madvise(base, capacity, MADV_DONTDUMP);
  if (prealloc) {
    if (madvise(base, capacity, MADV_POPULATE_WRITE) != 0) {
      return SystemError("preallocating segment memory");
    }
    arena->present_ = capacity;
  }
  return arena;
}

Arena::~Arena() {
  munmap(base_, capacity_);
  close(fd_);
}

Result<int> Arena::ShareReadOnly() {
  // A read-only descriptor alone is not enough: its receiver could open the file anew for writing.
  // The seals hold for everybody, and for as long as the memory lives.
  constexpr int kSeals = F_SEAL_FUTURE_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
  const int seals = fcntl(fd_, F_GET_SEALS);
  if ((seals & kSeals) != kSeals && fcntl(fd_, F_ADD_SEALS, kSeals) != 0) {
    return SystemError("sealing segment memory");
  }
  const std::string self = "/proc/self/fd/" + std::to_string(fd_);
  const int shared = open(self.c_str(), O_RDONLY | O_CLOEXEC);
  if (shared < 0) return SystemError("opening segment memory for reading");
  return shared;
}

uint64_t Arena::present_bytes() const {
  constexpr uint64_t kStatBlock = 512;
  struct stat status {};
  return fstat(fd_, &status) == 0 ? static_cast<uint64_t>(status.st_blocks) * kStatBlock : 0;
}

std::optional<Extent> Arena::Allocate(uint64_t length) {
  const uint64_t rounded = RoundedLength(length);
  std::optional<uint64_t> offset = space_.Take(rounded);
  if (!offset) return std::nullopt;
  return Extent{*offset, rounded};
}

// One call for many pages is cheaper than a fault for each while the kernel copies a payload in. If
// it fails, the faults do the same.
void Arena::Prepare(const Extent& extent) {
  if (extent.end() <= present_) return;
  const uint64_t steps = (extent.end() + kPopulateStep - 1) / kPopulateStep;
  const uint64_t end = std::min(capacity_, steps * kPopulateStep);
  (void)madvise(base_ + present_, end - present_, MADV_POPULATE_WRITE);
  present_ = end;
}

}  // namespace ember::kv
