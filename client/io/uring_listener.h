// UringListener: a Listener whose Accept is an io_uring request.
#pragma once

#include "client/io/file_descriptor.h"
#include "client/io/stream.h"
#include "client/io/uring_operation.h"

namespace ember::io {

class UringLoop;

class UringListener final : public Listener {
 public:
  UringListener(UringLoop* loop, FileDescriptor fd);
  ~UringListener() override;

  Task<Result<std::unique_ptr<Stream>>> Accept() override;
  void Close() override;
  uint16_t port() const override { return port_; }

 private:
  bool cancelled() const;

  UringLoop* const loop_;
  const FileDescriptor fd_;
  const uint16_t port_;
  UringOperation* accepting_ = nullptr;
  bool closed_ = false;
};

}  // namespace ember::io
