// A pure function, any thread.
#pragma once

#include <string>
#include <string_view>

namespace ember::router {

// Which network a client's address "HOST:PORT" or "[HOST]:PORT" is of: an address of IPv4, the
// first 64 bits of one of IPv6, of which whoever has one has all.
std::string NetworkOf(std::string_view peer);

}  // namespace ember::router
