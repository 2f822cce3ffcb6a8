// EpollListener: a Listener on a non-blocking socket.
#pragma once

#include "client/io/epoll_socket.h"
#include "client/io/stream.h"

namespace ember::io {

class EpollListener final : public Listener {
 public:
  EpollListener(EpollLoop* loop, FileDescriptor fd);

  Task<Result<std::unique_ptr<Stream>>> Accept() override;
  void Close() override { socket_.Close(); }
  uint16_t port() const override { return port_; }

  EpollSocket& socket() { return socket_; }

 private:
  EpollSocket socket_;
  const uint16_t port_;
};

}  // namespace ember::io
