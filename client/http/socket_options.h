// What every TCP connection of this layer is set to. Errors are ignored: the connection works
// without.
#pragma once

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <boost/asio/ip/tcp.hpp>

namespace ember::http {

// Small writes leave at once, nothing blocks, and a peer whose machine is gone is noticed in about
// 30 s even when neither side has anything to say.
inline void TuneSocket(boost::asio::ip::tcp::socket& socket) {
  boost::system::error_code ignored;
  socket.non_blocking(true, ignored);
  socket.set_option(boost::asio::ip::tcp::no_delay(true), ignored);
  socket.set_option(boost::asio::socket_base::keep_alive(true), ignored);
  const auto set = [fd = socket.native_handle()](int option, int value) {
    setsockopt(fd, IPPROTO_TCP, option, &value, sizeof value);
  };
  set(TCP_KEEPIDLE, 15);
  set(TCP_KEEPINTVL, 5);
  set(TCP_KEEPCNT, 3);
}

}  // namespace ember::http
