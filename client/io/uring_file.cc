#include "client/io/uring_file.h"

#include <liburing.h>

#include "client/io/uring_loop.h"

namespace ember::io {

UringFile::UringFile(UringLoop* loop, FileDescriptor fd, std::string path, bool direct)
    : PosixFile(loop, std::move(fd), std::move(path), direct), loop_(loop) {}

Task<ssize_t> UringFile::ReadOnce(uint64_t offset, MutableByteSpan buffer) {
  const std::optional<int> registered = loop_->FindRegistered(buffer);
  co_return co_await loop_->Perform(nullptr, [&](io_uring_sqe* entry) {
    const auto size = static_cast<unsigned>(buffer.size());
    if (registered) {
      io_uring_prep_read_fixed(entry, fd(), buffer.data(), size, offset, *registered);
    } else {
      io_uring_prep_read(entry, fd(), buffer.data(), size, offset);
    }
  });
}

Task<ssize_t> UringFile::WriteOnce(uint64_t offset, std::span<const iovec> vectors) {
  const iovec& first = vectors.front();
  const std::optional<int> registered =
      vectors.size() == 1
          ? loop_->FindRegistered({static_cast<const std::byte*>(first.iov_base), first.iov_len})
          : std::nullopt;
  co_return co_await loop_->Perform(nullptr, [&](io_uring_sqe* entry) {
    if (registered) {
      io_uring_prep_write_fixed(entry, fd(), first.iov_base, static_cast<unsigned>(first.iov_len),
                                offset, *registered);
    } else {
      io_uring_prep_writev(entry, fd(), vectors.data(), static_cast<unsigned>(vectors.size()),
                           offset);
    }
  });
}

Task<ssize_t> UringFile::SyncOnce() {
  co_return co_await loop_->Perform(nullptr, [&](io_uring_sqe* entry) {
    io_uring_prep_fsync(entry, fd(), IORING_FSYNC_DATASYNC);
  });
}

}  // namespace ember::io
