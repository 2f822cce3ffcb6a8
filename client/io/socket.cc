#include "client/io/socket.h"

#include <netinet/in.h>
#include <netinet/tcp.h>

#include <cerrno>
#include <cstring>

namespace ember::io {
namespace {

void SetOption(int fd, int level, int option, int value) {
  // Fails only on a descriptor that is no TCP socket, which would be a bug of ours.
  EMBER_CHECK(::setsockopt(fd, level, option, &value, sizeof value) == 0,
              "setsockopt on a TCP socket");
}

Status BindAndListen(int fd, const SocketAddress& address) {
  // So that a restart need not wait for old connections in TIME_WAIT; a port in use stays an error.
  SetOption(fd, SOL_SOCKET, SO_REUSEADDR, 1);
  if (address.family() == AF_INET6) SetOption(fd, IPPROTO_IPV6, IPV6_V6ONLY, 0);
  if (::bind(fd, address.get(), address.length) != 0) return ErrnoStatus("bind", errno);
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

void SetNoDelay(int fd) { SetOption(fd, IPPROTO_TCP, TCP_NODELAY, 1); }

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
