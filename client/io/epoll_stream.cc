#include "client/io/epoll_stream.h"

#include <sys/socket.h>

#include <cerrno>

#include "client/io/epoll_loop.h"
#include "client/io/gather_cursor.h"
#include "client/io/socket.h"

namespace ember::io {

Task<Result<size_t>> EpollStream::ReadSome(MutableByteSpan buffer) {
  EMBER_CHECK(!buffer.empty(), "nothing can be read into an empty buffer");
  for (;;) {
    if (!socket_.loop()->TakeTurn()) co_await socket_.loop()->Yield();
    if (socket_.cancelled()) co_return CancelledError("read " + peer_name_ + ": closed");
    const ssize_t n = ::recv(socket_.fd(), buffer.data(), buffer.size(), 0);
    if (n >= 0) co_return static_cast<size_t>(n);
    if (errno == EINTR) continue;
    if (errno != EAGAIN) co_return ErrnoStatus("read " + peer_name_, errno);
    co_await socket_.Wait(EpollSocket::kRead);
  }
}

Task<Status> EpollStream::WriteAll(std::span<const ByteSpan> parts) {
  GatherCursor cursor(parts);
  while (!cursor.done()) {
    if (!socket_.loop()->TakeTurn()) co_await socket_.loop()->Yield();
    if (socket_.cancelled()) co_return CancelledError("write " + peer_name_ + ": closed");
    const ssize_t n = ::sendmsg(socket_.fd(), cursor.Message(), MSG_NOSIGNAL);
    if (n >= 0) {
      cursor.Advance(static_cast<size_t>(n));
    } else if (errno == EAGAIN) {
      co_await socket_.Wait(EpollSocket::kWrite);
    } else if (errno != EINTR) {
      co_return ErrnoStatus("write " + peer_name_, errno);
    }
  }
  co_return OkStatus();
}

}  // namespace ember::io
