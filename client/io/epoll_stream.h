// EpollStream: a Stream on a non-blocking socket.
#pragma once

#include <string>

#include "client/io/epoll_socket.h"
#include "client/io/stream.h"

namespace ember::io {

class EpollStream final : public Stream {
 public:
  EpollStream(EpollLoop* loop, FileDescriptor fd, std::string peer_name)
      : socket_(loop, std::move(fd)), peer_name_(std::move(peer_name)) {}

  Task<Result<size_t>> ReadSome(MutableByteSpan buffer) override;
  Task<Status> WriteAll(std::span<const ByteSpan> parts) override;
  void Close() override { socket_.Close(); }
  const std::string& peer_name() const override { return peer_name_; }

  EpollSocket& socket() { return socket_; }

 private:
  EpollSocket socket_;
  const std::string peer_name_;
};

}  // namespace ember::io
