#include "router/fleet/event_endpoint.h"

#include <charconv>

namespace ember::router {
namespace {

constexpr std::string_view kTcp = "tcp://";
constexpr std::string_view kIpc = "ipc://";

// The port at the end of a TCP address, and where it begins.
Result<uint32_t> PortOf(std::string_view address, size_t* begin) {
  *begin = address.rfind(':') + 1;
  uint32_t port = 0;
  const char* const end = address.data() + address.size();
  const auto [parsed, error] = std::from_chars(address.data() + *begin, end, port);
  if (error != std::errc() || parsed != end || port == 0 || port > 65535) {
    return InvalidError("\"" + std::string(address) + "\" has no port from 1 to 65535");
  }
  return port;
}

}  // namespace

Result<EventEndpoint> EventEndpoint::Parse(std::string_view text) {
  const std::string shown(text.substr(0, 200));
  if (text.starts_with("tcp://*")) {
    return InvalidError("\"" + shown +
                        "\" is where the engine listens; say where it is: tcp://HOST:PORT");
  }
  if (text.size() > 250 || text.find_first_of("*;, \t\n") != text.npos) {
    return InvalidError("\"" + shown + "\" is no address that can be connected to");
  }
  if (text.starts_with(kIpc) && text.size() > kIpc.size()) return EventEndpoint{std::string(text)};
  if (!text.starts_with(kTcp)) {
    return InvalidError("\"" + shown + "\" is neither tcp://HOST:PORT nor ipc:///PATH");
  }
  size_t port_begin = 0;
  const Result<uint32_t> port = PortOf(text, &port_begin);
  if (!port.ok()) return port.status();
  if (port_begin <= kTcp.size() + 1) return InvalidError("\"" + shown + "\" has no host");
  return EventEndpoint{std::string(text)};
}

Result<EventEndpoint> EventEndpoint::OfRank(uint32_t rank) const {
  if (rank == 0) return *this;
  size_t port_begin = 0;
  const Result<uint32_t> port =
      address.starts_with(kTcp) ? PortOf(address, &port_begin)
                                : Result<uint32_t>(InvalidError("\"" + address + "\" has no port"));
  if (!port.ok()) return port.status();
  if (rank > 65535 - *port) {
    return InvalidError("\"" + address + "\" has no port for rank " + std::to_string(rank));
  }
  return EventEndpoint{address.substr(0, port_begin) + std::to_string(*port + rank)};
}

}  // namespace ember::router
