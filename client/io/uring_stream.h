// UringStream: a Stream whose operations are io_uring requests.
#pragma once

#include <string>

#include "client/io/file_descriptor.h"
#include "client/io/stream.h"
#include "client/io/uring_operation.h"

namespace ember::io {

class UringLoop;

class UringStream final : public Stream {
 public:
  UringStream(UringLoop* loop, FileDescriptor fd, std::string peer_name)
      : loop_(loop), fd_(std::move(fd)), peer_name_(std::move(peer_name)) {}
  ~UringStream() override;

  Task<Result<size_t>> ReadSome(MutableByteSpan buffer) override { return Read(buffer, 0); }
  Task<Result<size_t>> ReadBulk(MutableByteSpan buffer) override;
  Task<Status> WriteAll(std::span<const ByteSpan> parts) override;
  void Close() override;
  const std::string& peer_name() const override { return peer_name_; }

 private:
  Task<Result<size_t>> Read(MutableByteSpan buffer, int flags);
  bool cancelled() const;

  UringLoop* const loop_;
  const FileDescriptor fd_;
  const std::string peer_name_;
  UringOperation* reading_ = nullptr;
  UringOperation* writing_ = nullptr;
  bool closed_ = false;
};

}  // namespace ember::io
