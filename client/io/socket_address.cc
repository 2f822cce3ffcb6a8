#include "client/io/socket_address.h"

#include <netdb.h>
#include <netinet/in.h>

#include <cstring>

namespace ember::io {

uint16_t SocketAddress::port() const {
  // sin_port and sin6_port lie at the same offset.
  return ntohs(reinterpret_cast<const sockaddr_in*>(&storage)->sin_port);
}

std::string SocketAddress::ToString() const {
  char host[NI_MAXHOST];
  if (::getnameinfo(get(), length, host, sizeof host, nullptr, 0, NI_NUMERICHOST) != 0) return "?";
  std::string_view text = host;
  if (text.starts_with("::ffff:") && text.find('.') != text.npos) text.remove_prefix(7);
  return Endpoint{std::string(text), port()}.ToString();
}

Result<std::vector<SocketAddress>> ResolveEndpoint(const Endpoint& endpoint) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* list = nullptr;
  const int rc =
      ::getaddrinfo(endpoint.host.c_str(), std::to_string(endpoint.port).c_str(), &hints, &list);
  if (rc != 0) {
    const char* why = rc == EAI_SYSTEM ? std::strerror(errno) : ::gai_strerror(rc);
    return UnavailableError("resolve " + endpoint.host + ": " + why);
  }
  std::vector<SocketAddress> addresses;
  for (const addrinfo* i = list; i != nullptr; i = i->ai_next) {
    if (i->ai_family != AF_INET && i->ai_family != AF_INET6) continue;
    SocketAddress& address = addresses.emplace_back();
    std::memcpy(&address.storage, i->ai_addr, i->ai_addrlen);
    address.length = i->ai_addrlen;
  }
  ::freeaddrinfo(list);
  if (addresses.empty()) return UnavailableError("resolve " + endpoint.host + ": no IP address");
  return addresses;
}

}  // namespace ember::io
