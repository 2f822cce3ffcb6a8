#include "client/io/uring_stream.h"

#include <sys/socket.h>

#include <cerrno>

#include "client/io/gather_cursor.h"
#include "client/io/socket.h"
#include "client/io/uring_loop.h"

namespace ember::io {

UringStream::~UringStream() {
  EMBER_CHECK(reading_ == nullptr && writing_ == nullptr,
              "a stream outlives its pending operations");
}

bool UringStream::cancelled() const { return closed_ || loop_->draining(); }

Task<Result<size_t>> UringStream::ReadBulk(MutableByteSpan buffer) {
  return Read(buffer, MSG_WAITALL);
}

Task<Result<size_t>> UringStream::Read(MutableByteSpan buffer, int flags) {
  EMBER_CHECK(!buffer.empty(), "nothing can be read into an empty buffer");
  int rc = -EINTR;
  while (!cancelled() && (rc == -EINTR || rc == -EAGAIN)) {
    rc = co_await loop_->Perform(&reading_, [&](io_uring_sqe* entry) {
      io_uring_prep_recv(entry, fd_.get(), buffer.data(), buffer.size(), flags);
    });
  }
  if (cancelled()) co_return CancelledError("read " + peer_name_ + ": closed");
  if (rc < 0) co_return ErrnoStatus("read " + peer_name_, -rc);
  co_return static_cast<size_t>(rc);
}

Task<Status> UringStream::WriteAll(std::span<const ByteSpan> parts) {
  GatherCursor cursor(parts);
  while (!cursor.done()) {
    if (cancelled()) co_return CancelledError("write " + peer_name_ + ": closed");
    // MSG_WAITALL: newer kernels go on after a short write by themselves.
    const int rc = co_await loop_->Perform(&writing_, [&](io_uring_sqe* entry) {
      io_uring_prep_sendmsg(entry, fd_.get(), cursor.Message(), MSG_NOSIGNAL | MSG_WAITALL);
    });
    if (rc >= 0) {
      cursor.Advance(static_cast<size_t>(rc));
    } else if (!cancelled() && rc != -EINTR && rc != -EAGAIN) {
      co_return ErrnoStatus("write " + peer_name_, -rc);
    }
  }
  co_return OkStatus();
}

void UringStream::Close() {
  if (std::exchange(closed_, true)) return;
  ::shutdown(fd_.get(), SHUT_RDWR);
  loop_->Cancel(reading_);
  loop_->Cancel(writing_);
}

}  // namespace ember::io
