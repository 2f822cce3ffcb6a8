#include "router/admission/peer_network.h"

#include <algorithm>
#include <boost/asio/ip/address.hpp>

namespace ember::router {
namespace {

namespace ip = boost::asio::ip;

constexpr size_t kNetworkBytes = 8;

}  // namespace

std::string NetworkOf(std::string_view peer) {
  std::string_view host = peer.substr(0, peer.rfind(':'));
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  boost::system::error_code ec;
  const ip::address address = ip::make_address(host, ec);
  if (ec || address.is_v4()) return std::string(host);
  const ip::address_v6 v6 = address.to_v6();
  if (v6.is_v4_mapped()) return ip::make_address_v4(ip::v4_mapped, v6).to_string();
  ip::address_v6::bytes_type bytes = v6.to_bytes();
  std::fill(bytes.begin() + kNetworkBytes, bytes.end(), uint8_t{0});
  return ip::address_v6(bytes).to_string();
}

}  // namespace ember::router
