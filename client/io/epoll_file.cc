#include "client/io/epoll_file.h"

#include <unistd.h>

#include <cerrno>

#include "client/io/epoll_loop.h"

namespace ember::io {
namespace {

ssize_t OrError(ssize_t rc) { return rc >= 0 ? rc : -errno; }

}  // namespace

EpollFile::EpollFile(EpollLoop* loop, FileDescriptor fd, std::string path, bool direct)
    : PosixFile(loop, std::move(fd), std::move(path), direct), loop_(loop) {}

Task<ssize_t> EpollFile::ReadOnce(uint64_t offset, MutableByteSpan buffer) {
  co_return co_await loop_->blocking().Perform([=, fd = fd()] {
    return OrError(::pread(fd, buffer.data(), buffer.size(), static_cast<off_t>(offset)));
  });
}

Task<ssize_t> EpollFile::WriteOnce(uint64_t offset, std::span<const iovec> vectors) {
  co_return co_await loop_->blocking().Perform([=, fd = fd()] {
    return OrError(::pwritev(fd, vectors.data(), static_cast<int>(vectors.size()),
                             static_cast<off_t>(offset)));
  });
}

Task<ssize_t> EpollFile::SyncOnce() {
  co_return co_await loop_->blocking().Perform([fd = fd()] { return OrError(::fdatasync(fd)); });
}

}  // namespace ember::io
