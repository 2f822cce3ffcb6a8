#include "client/io/epoll_loop.h"

#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <limits>

#include "client/io/back_ends.h"
#include "client/io/epoll_file.h"
#include "client/io/epoll_listener.h"
#include "client/io/epoll_stream.h"
#include "client/io/socket.h"

namespace ember::io {
namespace {

constexpr int kEventsPerPoll = 256;

// Rounded up, so that a timer is due when the wait ends.
int ToEpollTimeout(std::optional<Duration> timeout) {
  if (!timeout) return -1;
  const auto ms = std::chrono::ceil<milliseconds>(*timeout).count();
  return static_cast<int>(std::min<int64_t>(ms, std::numeric_limits<int>::max()));
}

}  // namespace

Result<std::unique_ptr<Loop>> MakeEpollLoop() {
  Result<FileDescriptor> wake = PostQueue::MakeWakeDescriptor();
  if (!wake.ok()) return wake.status();
  FileDescriptor epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll.valid()) return ErrnoStatus("epoll_create1", errno);
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.ptr = nullptr;  // the mark of the wake descriptor
  if (::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, wake->get(), &event) != 0) {
    return ErrnoStatus("epoll_ctl", errno);
  }
  return std::unique_ptr<Loop>(new EpollLoop(*std::move(wake), std::move(epoll)));
}

EpollLoop::EpollLoop(FileDescriptor wake, FileDescriptor epoll) : LoopBase(std::move(wake)) {
  set_->fd = std::move(epoll);
}

void EpollLoop::Poll(std::optional<Duration> timeout) {
  turns_ = 0;
  std::array<epoll_event, kEventsPerPoll> events;
  const int n =
      ::epoll_wait(set_->fd.get(), events.data(), kEventsPerPoll, ToEpollTimeout(timeout));
  EMBER_CHECK(n >= 0 || errno == EINTR, "epoll_wait");
  for (int i = 0; i < n; ++i) {
    if (events[i].data.ptr == nullptr) {
      posts_.ClearWake();
    } else {
      static_cast<EpollSocket*>(events[i].data.ptr)->OnEvents(events[i].events);
    }
  }
}

bool EpollLoop::CancelPending() {
  for (EpollSocket* socket : set_->sockets) {
    socket->Wake(EpollSocket::kRead);
    socket->Wake(EpollSocket::kWrite);
  }
  return blocking_.CancelQueued();
}

std::unique_ptr<File> EpollLoop::AdoptFile(FileDescriptor fd, std::string path, bool direct) {
  return std::make_unique<EpollFile>(this, std::move(fd), std::move(path), direct);
}

int EpollLoop::socket_flags() const { return SOCK_NONBLOCK; }

Result<std::unique_ptr<Stream>> EpollLoop::AdoptStream(FileDescriptor fd, std::string peer_name) {
  SetUpStream(fd.get());
  auto stream = std::make_unique<EpollStream>(this, std::move(fd), std::move(peer_name));
  EMBER_RETURN_IF_ERROR(stream->socket().Register());
  return std::unique_ptr<Stream>(std::move(stream));
}

Result<std::unique_ptr<Listener>> EpollLoop::AdoptListener(FileDescriptor fd) {
  auto listener = std::make_unique<EpollListener>(this, std::move(fd));
  EMBER_RETURN_IF_ERROR(listener->socket().Register());
  return std::unique_ptr<Listener>(std::move(listener));
}

Task<Result<std::unique_ptr<Stream>>> EpollLoop::ConnectSocket(FileDescriptor fd,
                                                               const SocketAddress& address,
                                                               TimePoint deadline) {
  const int rc = ::connect(fd.get(), address.get(), address.length);
  if (rc != 0 && errno != EINPROGRESS && errno != EINTR) co_return ErrnoStatus("connect", errno);
  const bool pending = rc != 0;
  Result<std::unique_ptr<Stream>> stream = AdoptStream(std::move(fd), address.ToString());
  if (!stream.ok() || !pending) co_return stream;

  EpollSocket& socket = static_cast<EpollStream*>(stream->get())->socket();
  bool late = false;
  const auto timer = StartTimer(deadline, [&] {
    late = true;
    socket.Wake(EpollSocket::kWrite);
  });
  // A socket that is still connecting is neither writable nor in error; so the first wake-up
  // decides.
  co_await socket.Wait(EpollSocket::kWrite);
  if (socket.cancelled()) co_return CancelledError("the loop has stopped");
  if (late) co_return DeadlineError("timed out");
  int error = 0;
  socklen_t length = sizeof error;
  ::getsockopt(socket.fd(), SOL_SOCKET, SO_ERROR, &error, &length);
  if (error != 0) co_return ErrnoStatus("connect", error);
  co_return stream;
}

}  // namespace ember::io
