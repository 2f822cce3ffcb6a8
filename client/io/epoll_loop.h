// EpollLoop: the back end for kernels and containers that refuse io_uring.
#pragma once

#include "client/io/blocking_pool.h"
#include "client/io/epoll_socket.h"
#include "client/io/loop_base.h"

namespace ember::io {

class EpollLoop final : public LoopBase {
 public:
  EpollLoop(FileDescriptor wake, FileDescriptor epoll);

  std::string_view backend() const override { return "epoll"; }
  bool movable() const override { return true; }

  // There is nothing to register with.
  Status RegisterMemory(MutableByteSpan) override { return OkStatus(); }
  std::unique_ptr<File> AdoptFile(FileDescriptor fd, std::string path, bool direct) override;

  // For files of this loop.
  BlockingPool& blocking() { return blocking_; }
  // For sockets of this loop.
  const std::shared_ptr<EpollSet>& set() const { return set_; }
  Result<std::unique_ptr<Stream>> AdoptStream(FileDescriptor fd, std::string peer_name);
  // False when this round has made so many system calls without suspending that the caller should
  // Yield: a fast peer must not keep the others from their turn.
  bool TakeTurn() { return ++turns_ <= kTurnsPerRound; }

 protected:
  void Poll(std::optional<Duration> timeout) override;
  bool CancelPending() override;
  int socket_flags() const override;
  Result<std::unique_ptr<Listener>> AdoptListener(FileDescriptor fd) override;
  Task<Result<std::unique_ptr<Stream>>> ConnectSocket(FileDescriptor fd,
                                                      const SocketAddress& address,
                                                      TimePoint deadline) override;

 private:
  static constexpr int kTurnsPerRound = 256;

  const std::shared_ptr<EpollSet> set_ = std::make_shared<EpollSet>();
  int turns_ = 0;
  BlockingPool blocking_{this};
};

}  // namespace ember::io
