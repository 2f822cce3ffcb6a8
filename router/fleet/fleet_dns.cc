#include "router/fleet/fleet_dns.h"

#include <algorithm>

#include "client/http/name_resolver.h"

namespace ember::router {
namespace {

namespace asio = boost::asio;

constexpr size_t kMaxAddresses = 1024;
// Stands for one until there is an answer.
constexpr std::string_view kAnyAddress = "192.0.2.1";
constexpr std::string_view kHost = "{host}";

// An id is made of the address, so that a replica keeps its own over time.
std::string IdOf(std::string address, uint16_t port) {
  std::replace_if(
      address.begin(), address.end(), [](char c) { return c == ':' || c == '%'; }, '-');
  return address + "_" + std::to_string(port);
}

std::string Replaced(std::string text, std::string_view what, std::string_view by) {
  for (size_t at = 0; (at = text.find(what, at)) != text.npos; at += by.size()) {
    text.replace(at, what.size(), by);
  }
  return text;
}

}  // namespace

Result<FleetDnsConfig> FleetDnsConfig::Parse(std::string_view text) {
  const size_t comma = std::min(text.find(','), text.size());
  Result<http::Origin> origin = http::Origin::Parse(text.substr(0, comma));
  if (!origin.ok()) return origin.status();
  FleetDnsConfig config{.name = origin->host,
                        .port = origin->port,
                        .fields = std::string(text.substr(std::min(comma + 1, text.size())))};
  const Result<ReplicaConfig> any = config.ReplicaAt(std::string(kAnyAddress));
  const std::string others = Replaced(config.fields, kHost, "");
  if (others.find_first_of("{}") != others.npos) {
    return InvalidError("what stands in braces is not known: only {host} is, the address");
  }
  if (!any.ok()) {
    return InvalidError(Replaced(std::string(any.status().message()), kAnyAddress, kHost));
  }
  return config;
}

Result<ReplicaConfig> FleetDnsConfig::ReplicaAt(const std::string& address) const {
  const bool v6 = address.find(':') != address.npos;
  const std::string host = v6 ? "[" + address + "]" : address;
  return ReplicaConfig::Parse(IdOf(address, port) + ",http=" + host + ":" + std::to_string(port) +
                              (fields.empty() ? "" : "," + Replaced(fields, kHost, host)));
}

FleetDns::Resolve FleetDns::BySystem(http::HttpLoop& loop) {
  return [&loop](std::string name) -> asio::awaitable<Result<Addresses>> {
    const http::NameResolver::Answer answer = co_await loop.names().LookUp(name, nullptr);
    if (answer.ec) co_return UnavailableError(answer.ec.message());
    Addresses addresses;
    for (const auto& address : answer.addresses) addresses.push_back(address.to_string());
    co_return addresses;
  };
}

void FleetDns::Follow(http::HttpLoop& loop) { loop.Spawn(Run(stop_)); }

asio::awaitable<void> FleetDns::Run(StopSign stop) {
  do {
    const Result<Addresses> addresses = co_await resolve_(config_.name);
    if (stop->cancelled()) co_return;
    const Status applied = Apply(addresses);
    membership_.SetTrouble(config_.source(), applied);
  } while ((co_await http::SleepFor(config_.interval, stop.get())).ok());
}

Status FleetDns::Apply(const Result<Addresses>& addresses) {
  if (!addresses.ok()) return addresses.status();
  Addresses distinct = *addresses;
  std::sort(distinct.begin(), distinct.end());
  distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
  if (distinct.empty() || distinct.size() > kMaxAddresses) {
    return UnavailableError("answered with " + std::to_string(distinct.size()) + " addresses");
  }
  std::vector<ReplicaConfig> replicas;
  for (const std::string& address : distinct) {
    Result<ReplicaConfig> replica = config_.ReplicaAt(address);
    if (!replica.ok()) return replica.status();
    EMBER_RETURN_IF_ERROR(replica->LoadKey());
    replicas.push_back(*std::move(replica));
  }
  return membership_.Replace(config_.source(), std::move(replicas));
}

}  // namespace ember::router
