// EpollSocket: one non-blocking descriptor in a loop's epoll set, and the coroutines that wait for
// it.
//
// Operation: registered once, edge-triggered, for both directions. Callers try the system call
// first and wait only after EAGAIN, so an edge that came while nobody waited is never missed.
// Concurrency: the loop's thread only.
#pragma once

#include <array>
#include <coroutine>
#include <memory>
#include <unordered_set>

#include "client/io/file_descriptor.h"
#include "proto/base/status.h"

namespace ember::io {

class EpollLoop;
class EpollSocket;

// Shared by the loop and its sockets, so that a socket may die after its loop.
struct EpollSet {
  FileDescriptor fd;
  std::unordered_set<EpollSocket*> sockets;
};

class EpollSocket {
 public:
  enum Direction { kRead = 0, kWrite = 1 };

  EpollSocket(EpollLoop* loop, FileDescriptor fd);
  EpollSocket(const EpollSocket&) = delete;
  EpollSocket& operator=(const EpollSocket&) = delete;
  ~EpollSocket();

  Status Register();
  // Suspends until there may be something to do in this direction; wakes for nothing at times.
  auto Wait(Direction direction) {
    struct Awaiter {
      EpollSocket* socket;
      Direction direction;
      bool await_ready() { return false; }
      void await_suspend(std::coroutine_handle<> caller) { socket->Suspend(direction, caller); }
      void await_resume() {}
    };
    return Awaiter{this, direction};
  }
  // Enqueues whoever waits for these epoll events.
  void OnEvents(uint32_t events);
  void Wake(Direction direction);
  // Shuts down and wakes the waiters, who then see cancelled().
  void Close();
  // Operations end with kCancelled.
  bool cancelled() const;
  EpollLoop* loop() const { return loop_; }
  int fd() const { return fd_.get(); }

 private:
  void Suspend(Direction direction, std::coroutine_handle<> caller);

  EpollLoop* const loop_;
  const std::shared_ptr<EpollSet> set_;
  FileDescriptor fd_;
  std::array<std::coroutine_handle<>, 2> waiters_;
  bool closed_ = false;
};

}  // namespace ember::io
