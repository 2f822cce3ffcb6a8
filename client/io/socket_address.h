// SocketAddress: one numeric address as the kernel takes it.
#pragma once

#include <sys/socket.h>

#include <string>
#include <vector>

#include "client/io/stream.h"

namespace ember::io {

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = sizeof(sockaddr_storage);

  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  int family() const { return storage.ss_family; }
  uint16_t port() const;
  // As Endpoint::ToString; an IPv4 address that came through an IPv6 socket is shown as IPv4.
  std::string ToString() const;
};

// Every address of the endpoint, in the system's order of preference; blocks when it is a name.
// kUnavailable when there is none.
Result<std::vector<SocketAddress>> ResolveEndpoint(const Endpoint& endpoint);

}  // namespace ember::io
