#include "client/io/socket.h"

#include <netinet/in.h>
#include <netinet/tcp.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>

#include "proto/base/time.h"

namespace ember::io {
namespace {

constexpr Duration kPortLeftBehind = seconds(2), kBindPause = milliseconds(10);

void SetOption(int fd, int level, int option, int value) {
  // Fails only on a descriptor that is no TCP socket, which would be a bug of ours.
  EMBER_CHECK(::setsockopt(fd, level, option, &value, sizeof value) == 0,
              "setsockopt on a TCP socket");
}

// The address alone, without the port.
ByteSpan HostOf(const SocketAddress& address) {
  if (address.family() == AF_INET) {
    const auto* of = reinterpret_cast<const sockaddr_in*>(address.get());
    return std::as_bytes(std::span(&of->sin_addr, 1));
  }
  const auto* of = reinterpret_cast<const sockaddr_in6*>(address.get());
  return std::as_bytes(std::span(&of->sin6_addr, 1));
}

bool IsWithinHost(int fd) {
  SocketAddress local;
  SocketAddress remote;
  return ::getsockname(fd, local.get(), &local.length) == 0 &&
         ::getpeername(fd, remote.get(), &remote.length) == 0 &&
         local.family() == remote.family() && std::ranges::equal(HostOf(local), HostOf(remote));
}

Status BindAndListen(int fd, const SocketAddress& address) {
  // So that a restart need not wait for old connections in TIME_WAIT; a port in use stays an error.
  SetOption(fd, SOL_SOCKET, SO_REUSEADDR, 1);
  if (address.family() == AF_INET6) SetOption(fd, IPPROTO_IPV6, IPV6_V6ONLY, 0);
  // The kernel closes the sockets of a killed process that used io_uring a while after the process
  // is gone for whoever waited for it: on a busy machine its successor would find the port in use.
  const TimePoint until = SteadyClock().Now() + kPortLeftBehind;
  while (::bind(fd, address.get(), address.length) != 0) {
    if (errno != EADDRINUSE || SteadyClock().Now() >= until) return ErrnoStatus("bind", errno);
    std::this_thread::sleep_for(kBindPause);
  }
  if (::listen(fd, SOMAXCONN) != 0) return ErrnoStatus("listen", errno);
  return OkStatus();
}

}  // namespace

Status ErrnoStatus(std::string_view what, int error) {
  std::string message = std::string(what) + ": " + std::strerror(error);
  switch (error) {
    case ECANCELED:
      return CancelledError(std::move(message));
    case EMFILE:
    case ENFILE:
    case ENOBUFS:
    case ENOMEM:
    case ENOSPC:
      return BusyError(std::move(message));
    default:
      return UnavailableError(std::move(message));
  }
}

Result<FileDescriptor> OpenSocket(int family, int flags) {
  FileDescriptor fd(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | flags, IPPROTO_TCP));
  if (!fd.valid()) return ErrnoStatus("socket", errno);
  return fd;
}

Result<FileDescriptor> OpenListenSocket(const Endpoint& endpoint, int flags) {
  const std::string what = "listen on " + endpoint.ToString();
  Result<std::vector<SocketAddress>> addresses = ResolveEndpoint(endpoint);
  if (!addresses.ok()) return addresses.status().WithContext(what);
  Status last;
  for (const SocketAddress& address : *addresses) {
    Result<FileDescriptor> fd = OpenSocket(address.family(), flags);
    last = fd.ok() ? BindAndListen(fd->get(), address) : fd.status();
    if (last.ok()) return fd;
  }
  return last.WithContext(what);
}

void SetUpStream(int fd) {
  SetOption(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  // Reno: any process may choose it. Refused, the system's own does.
  constexpr std::string_view kUnpaced = "reno";
  if (IsWithinHost(fd)) {
    (void)!::setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, kUnpaced.data(), kUnpaced.size());
  }
}

uint16_t LocalPort(int fd) {
  SocketAddress address;
  return ::getsockname(fd, address.get(), &address.length) == 0 ? address.port() : 0;
}

bool IsConnectedToItself(int fd) {
  SocketAddress local;
  SocketAddress remote;
  return ::getsockname(fd, local.get(), &local.length) == 0 &&
         ::getpeername(fd, remote.get(), &remote.length) == 0 && local.length == remote.length &&
         std::memcmp(&local.storage, &remote.storage, local.length) == 0;
}

}  // namespace ember::io
