// A connected pair of sockets in one thread: one end is the code's, the other the fuzzer's.
#pragma once

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <cstddef>
#include <string>
#include <string_view>

#include "proto/base/check.h"

namespace ember {

class SocketPair {
 public:
  explicit SocketPair(boost::asio::io_context& context) : ours(context) {
    int fds[2];
    EMBER_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds) == 0, "socketpair");
    ours.assign(boost::asio::ip::tcp::v4(), fds[0]);
    ours.non_blocking(true);
    theirs_ = fds[1];
  }
  ~SocketPair() { close(theirs_); }

  // Sends in pieces of `piece` bytes and lets the loop run after each; then the end.
  void SendAll(boost::asio::io_context& context, std::string_view bytes, size_t piece) {
    while (!bytes.empty()) {
      const std::string_view next = bytes.substr(0, piece);
      const ssize_t n = send(theirs_, next.data(), next.size(), MSG_NOSIGNAL);
      if (n <= 0) break;
      bytes.remove_prefix(static_cast<size_t>(n));
      Run(context);
      Receive();
    }
    shutdown(theirs_, SHUT_WR);
  }
  void Receive() {
    char space[4096];
    ssize_t n = 0;
    while ((n = recv(theirs_, space, sizeof space, 0)) > 0)
      received.append(space, static_cast<size_t>(n));
  }
  static void Run(boost::asio::io_context& context) {
    context.restart();
    context.poll();
  }

  boost::asio::ip::tcp::socket ours;
  std::string received;

 private:
  int theirs_ = -1;
};

}  // namespace ember
