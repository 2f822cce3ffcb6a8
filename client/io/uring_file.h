// UringFile: a File whose operations are io_uring requests.
#pragma once

#include "client/io/posix_file.h"

namespace ember::io {

class UringLoop;

class UringFile final : public PosixFile {
 public:
  UringFile(UringLoop* loop, FileDescriptor fd, std::string path, bool direct);

 private:
  Task<ssize_t> ReadOnce(uint64_t offset, MutableByteSpan buffer) override;
  Task<ssize_t> WriteOnce(uint64_t offset, std::span<const iovec> vectors) override;
  Task<ssize_t> SyncOnce() override;

  UringLoop* const loop_;
};

}  // namespace ember::io
