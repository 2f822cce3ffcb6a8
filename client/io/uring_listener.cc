#include "client/io/uring_listener.h"

#include <sys/socket.h>

#include <cerrno>

#include "client/io/socket.h"
#include "client/io/uring_loop.h"

namespace ember::io {

UringListener::UringListener(UringLoop* loop, FileDescriptor fd)
    : loop_(loop), fd_(std::move(fd)), port_(LocalPort(fd_.get())) {}

UringListener::~UringListener() {
  EMBER_CHECK(accepting_ == nullptr, "a listener outlives its pending accept");
}

bool UringListener::cancelled() const { return closed_ || loop_->draining(); }

Task<Result<std::unique_ptr<Stream>>> UringListener::Accept() {
  while (!cancelled()) {
    SocketAddress peer;
    const int rc = co_await loop_->Perform(&accepting_, [&](io_uring_sqe* entry) {
      io_uring_prep_accept(entry, fd_.get(), peer.get(), &peer.length, SOCK_CLOEXEC);
    });
    FileDescriptor fd(rc);
    if (cancelled()) break;
    if (rc >= 0) co_return loop_->AdoptStream(std::move(fd), peer.ToString());
    if (rc != -EINTR && rc != -EAGAIN && rc != -ECONNABORTED) {
      co_return ErrnoStatus("accept", -rc);
    }
  }
  co_return CancelledError("accept: closed");
}

void UringListener::Close() {
  if (std::exchange(closed_, true)) return;
  ::shutdown(fd_.get(), SHUT_RDWR);
  loop_->Cancel(accepting_);
}

}  // namespace ember::io
