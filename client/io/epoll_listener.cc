#include "client/io/epoll_listener.h"

#include <cerrno>

#include "client/io/epoll_loop.h"
#include "client/io/socket.h"

namespace ember::io {

EpollListener::EpollListener(EpollLoop* loop, FileDescriptor fd)
    : socket_(loop, std::move(fd)), port_(LocalPort(socket_.fd())) {}

Task<Result<std::unique_ptr<Stream>>> EpollListener::Accept() {
  for (;;) {
    if (!socket_.loop()->TakeTurn()) co_await socket_.loop()->Yield();
    if (socket_.cancelled()) co_return CancelledError("accept: closed");
    SocketAddress peer;
    FileDescriptor fd(
        ::accept4(socket_.fd(), peer.get(), &peer.length, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (fd.valid()) co_return socket_.loop()->AdoptStream(std::move(fd), peer.ToString());
    if (errno == EAGAIN) {
      co_await socket_.Wait(EpollSocket::kRead);
    } else if (errno != EINTR && errno != ECONNABORTED) {
      co_return ErrnoStatus("accept", errno);
    }
  }
}

}  // namespace ember::io
