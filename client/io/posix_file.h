// PosixFile: what the Files of both back ends share: the descriptor, the checks, the loops over
// short reads and writes. A back end adds one system call's worth of I/O.
#pragma once

#include <sys/uio.h>

#include <string>
#include <string_view>

#include "client/io/file.h"
#include "client/io/file_descriptor.h"

namespace ember::io {

class LoopBase;

class PosixFile : public File {
 public:
  PosixFile(LoopBase* loop, FileDescriptor fd, std::string path, bool direct)
      : loop_(loop), fd_(std::move(fd)), path_(std::move(path)), direct_(direct) {}
  ~PosixFile() override;

  Task<Result<size_t>> ReadAt(uint64_t offset, MutableByteSpan buffer) final;
  Task<Status> WriteAt(uint64_t offset, std::span<const ByteSpan> parts) final;
  Task<Status> Sync() final;
  Status Truncate(uint64_t length) final;
  Status Allocate(uint64_t length) final;
  Result<uint64_t> Size() final;
  bool direct() const final { return direct_; }
  const std::string& path() const final { return path_; }

 protected:
  int fd() const { return fd_.get(); }

 private:
  class PendingOperation;

  // One system call each, on the kernel's or another thread's time: a count, or a negative error
  // number. The vectors stay valid and in place until it completes.
  virtual Task<ssize_t> ReadOnce(uint64_t offset, MutableByteSpan buffer) = 0;
  virtual Task<ssize_t> WriteOnce(uint64_t offset, std::span<const iovec> vectors) = 0;
  virtual Task<ssize_t> SyncOnce() = 0;

  void CheckAligned(uint64_t offset, ByteSpan buffer) const;
  Status Failure(std::string_view operation, ssize_t error) const;

  LoopBase* const loop_;
  const FileDescriptor fd_;
  const std::string path_;
  const bool direct_;
  size_t pending_ = 0;
};

}  // namespace ember::io
