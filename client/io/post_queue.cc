#include "client/io/post_queue.h"

#include <sys/eventfd.h>

#include <cerrno>
#include <cstdint>

#include "client/io/socket.h"

namespace ember::io {

Result<FileDescriptor> PostQueue::MakeWakeDescriptor() {
  FileDescriptor fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!fd.valid()) return ErrnoStatus("eventfd", errno);
  return fd;
}

bool PostQueue::Push(std::function<void()> fn) {
  std::lock_guard lock(mutex_);
  // The function dies with the caller's frame, after the lock: its captures may post in their
  // destructors.
  if (closed_) return false;
  queue_.push_back(std::move(fn));
  return queue_.size() == 1;
}

void PostQueue::Wake(int wake_fd) {
  const uint64_t one = 1;
  // EAGAIN means that the counter is full, and then the loop is woken already.
  while (::write(wake_fd, &one, sizeof one) < 0 && errno == EINTR) {
  }
}

std::vector<std::function<void()>> PostQueue::Take() {
  std::lock_guard lock(mutex_);
  return std::exchange(queue_, {});
}

void PostQueue::ClearWake() {
  uint64_t count = 0;
  while (::read(wake_.get(), &count, sizeof count) < 0 && errno == EINTR) {
  }
}

void PostQueue::Close() {
  std::vector<std::function<void()>> dropped;  // declared first: dies after the lock
  std::lock_guard lock(mutex_);
  closed_ = true;
  dropped.swap(queue_);
}

bool PostQueue::empty() {
  std::lock_guard lock(mutex_);
  return queue_.empty();
}

}  // namespace ember::io
