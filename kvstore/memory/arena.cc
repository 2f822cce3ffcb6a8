#include "kvstore/memory/arena.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace ember::kv {
namespace {

Status SystemError(const char* what) {
  const int error = errno;
  std::string message = std::string(what) + ": " + std::strerror(error);
  return error == ENOMEM || error == ENOSPC ? NoSpaceError(std::move(message))
                                            : UnavailableError(std::move(message));
}

}  // namespace

Result<std::unique_ptr<Arena>> Arena::Make(uint64_t capacity, bool prealloc) {
  capacity = capacity / kGranule * kGranule;
  if (capacity == 0) return InvalidError("segment memory of less than one page");
  const int fd = memfd_create("ember-arena", MFD_CLOEXEC);
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
  if (prealloc && madvise(base, capacity, MADV_POPULATE_WRITE) != 0) {
    return SystemError("preallocating segment memory");
  }
  return arena;
}

Arena::~Arena() {
  munmap(base_, capacity_);
  close(fd_);
}

std::optional<Extent> Arena::Allocate(uint64_t length) {
  const uint64_t rounded = RoundedLength(length);
  std::optional<uint64_t> offset = space_.Take(rounded);
  if (!offset) return std::nullopt;
  return Extent{*offset, rounded};
}

}  // namespace ember::kv
