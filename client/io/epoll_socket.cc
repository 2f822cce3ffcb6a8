#include "client/io/epoll_socket.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <cerrno>

#include "client/io/epoll_loop.h"
#include "client/io/socket.h"

namespace ember::io {

EpollSocket::EpollSocket(EpollLoop* loop, FileDescriptor fd)
    : loop_(loop), set_(loop->set()), fd_(std::move(fd)) {}

EpollSocket::~EpollSocket() {
  EMBER_CHECK(!waiters_[kRead] && !waiters_[kWrite], "a stream outlives its pending operations");
  // Explicitly, since a forked child may keep the descriptor open and its events coming.
  if (set_->sockets.erase(this) != 0)
    ::epoll_ctl(set_->fd.get(), EPOLL_CTL_DEL, fd_.get(), nullptr);
}

Status EpollSocket::Register() {
  epoll_event event{};
  event.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
  event.data.ptr = this;
  if (::epoll_ctl(set_->fd.get(), EPOLL_CTL_ADD, fd_.get(), &event) != 0) {
    return ErrnoStatus("epoll_ctl", errno);
  }
  set_->sockets.insert(this);
  return OkStatus();
}

void EpollSocket::OnEvents(uint32_t events) {
  constexpr uint32_t kBoth = EPOLLERR | EPOLLHUP;
  if (events & (EPOLLIN | EPOLLRDHUP | kBoth)) Wake(kRead);
  if (events & (EPOLLOUT | kBoth)) Wake(kWrite);
}

void EpollSocket::Suspend(Direction direction, std::coroutine_handle<> caller) {
  EMBER_CHECK(!waiters_[direction], "one read and one write at a time");
  waiters_[direction] = caller;
  loop_->AddSuspended();
}

void EpollSocket::Wake(Direction direction) {
  if (!waiters_[direction]) return;
  loop_->RemoveSuspended();
  loop_->Enqueue(std::exchange(waiters_[direction], nullptr));
}

void EpollSocket::Close() {
  if (std::exchange(closed_, true)) return;
  ::shutdown(fd_.get(), SHUT_RDWR);
  Wake(kRead);
  Wake(kWrite);
}

bool EpollSocket::cancelled() const { return closed_ || loop_->draining(); }

}  // namespace ember::io
