// FleetDns: follows a DNS name whose addresses are replicas, such as a headless service. Each of
// its A and AAAA records is one, with the fields that were given for all; one that is gone from an
// answer goes, and a question that fails changes nothing.
//
// Concurrency: the router's loop thread (the asking itself is done beside it).
// Life: until Stop, or until the loop's threads have ended.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "client/http/loop.h"
#include "router/fleet/membership.h"

namespace ember::router {

// NAME:PORT and the fields of each replica, in which "{host}" stands for its address.
struct FleetDnsConfig {
  std::string name;
  uint16_t port = 0;
  std::string fields;  // "model=m,events=tcp://{host}:5557"; empty: none
  Duration interval = seconds(5);

  // Whose replicas they are, of Membership's sources.
  std::string source() const {
    return std::string(kDnsSource) + ":" + name + ":" + std::to_string(port);
  }
  // "llm.default.svc:8000,key_file=/run/key"; kInvalid says what is wrong.
  static Result<FleetDnsConfig> Parse(std::string_view text);
  // The replica at this numeric address.
  Result<ReplicaConfig> ReplicaAt(const std::string& address) const;
};

class FleetDns {
 public:
  // Numeric addresses of a name; an error when it could not be asked.
  using Addresses = std::vector<std::string>;
  using Resolve = std::function<boost::asio::awaitable<Result<Addresses>>(std::string name)>;

  FleetDns(FleetDnsConfig config, Membership& membership, Resolve resolve)
      : config_(std::move(config)), membership_(membership), resolve_(std::move(resolve)) {}

  void Follow(http::HttpLoop& loop);
  void Stop() { stop_->Cancel(); }

  // Asks the system. `loop` must outlive it.
  static Resolve BySystem(http::HttpLoop& loop);

 private:
  using StopSign = std::shared_ptr<http::Cancellation>;
  boost::asio::awaitable<void> Run(StopSign stop);
  Status Apply(const Result<Addresses>& addresses);

  const FleetDnsConfig config_;
  Membership& membership_;
  const Resolve resolve_;
  // Shared with the coroutine, which may be destroyed after this.
  const StopSign stop_ = std::make_shared<http::Cancellation>();
};

}  // namespace ember::router
