// EpollFile: a File whose system calls run on the loop's blocking threads.
#pragma once

#include "client/io/posix_file.h"

namespace ember::io {

class EpollLoop;

class EpollFile final : public PosixFile {
 public:
  EpollFile(EpollLoop* loop, FileDescriptor fd, std::string path, bool direct);

 private:
  Task<ssize_t> ReadOnce(uint64_t offset, MutableByteSpan buffer) override;
  Task<ssize_t> WriteOnce(uint64_t offset, std::span<const iovec> vectors) override;
  Task<ssize_t> SyncOnce() override;

  EpollLoop* const loop_;
};

}  // namespace ember::io
