#include "tests/sim/sim_network.h"

#include <algorithm>

#include "client/io/socket_address.h"
#include "tests/sim/sim_connection.h"
#include "tests/sim/sim_loop.h"

namespace ember::sim {
namespace {

// A host's address for a name; empty when nobody is called so.
std::string HostOf(const std::string& name) {
  if (name == "localhost") return "127.0.0.1";
  const bool numeric = name.find_first_not_of("0123456789.") == std::string::npos ||
                       name.find(':') != std::string::npos;
  return numeric ? name : "";
}

std::string NameOf(const std::string& host, uint16_t port) {
  return io::Endpoint{host, port}.ToString();
}

// A host's own addresses: its address and its loopback ones.
bool IsOwn(const std::string& host, const SimLoop& loop) {
  return host == loop.address() || host == "127.0.0.1" || host == "::1";
}

}  // namespace

// A connect that is under way.
struct SimNetwork::Dial {
  Dial(SimLoop* caller, std::string callee, uint16_t at)
      : loop(caller), host(std::move(callee)), port(at) {}

  SimLoop* const loop;
  const std::string host;
  const uint16_t port;
  ParkingSpot spot;
  std::shared_ptr<SimConnection> connection;
  Status refused;
  bool late = false;
};

bool SimNetwork::Throw(double probability, NetworkFault fault) {
  if (!simulation_->dice().Chance(probability)) return false;
  ++injected[fault];
  return true;
}

void SimNetwork::Deliver(const std::string& from, const std::string& to, TimePoint when,
                         std::function<void()> fn) {
  simulation_->At(when, this, [this, link = Link(from, to), fn = std::move(fn)]() mutable {
    if (cut_.contains(link)) {
      held_[link].push_back(std::move(fn));
    } else {
      fn();
    }
  });
}

void SimNetwork::Join(const std::string& a, const std::string& b) {
  cut_.erase(Link(a, b));
  auto held = held_.extract(Link(a, b));
  if (held.empty()) return;
  for (auto& fn : held.mapped()) fn();
}

void SimNetwork::LosePower(const std::string& host) {
  std::erase_if(connections_, [](const auto& connection) { return connection.expired(); });
  for (const auto& weak : connections_) {
    if (const auto connection = weak.lock()) connection->LosePower(host);
  }
  std::vector<SimListener*> gone;
  for (const auto& [address, listener] : listeners_) {
    if (listener->loop()->address() == host) gone.push_back(listener);
  }
  for (SimListener* listener : gone) listener->Close();
}

Result<std::unique_ptr<io::Listener>> SimNetwork::Listen(SimLoop* loop,
                                                         const io::Endpoint& endpoint) {
  const std::string what = "listen on " + endpoint.ToString() + ": ";
  std::string host = HostOf(endpoint.host);
  if (host == "0.0.0.0" || host == "::") host = loop->address();
  if (!IsOwn(host, *loop)) return UnavailableError(what + "bind: Cannot assign requested address");
  uint16_t port = endpoint.port;
  while (port == 0 || (endpoint.port == 0 && listeners_.contains({host, port}))) port = NextPort();
  if (listeners_.contains({host, port})) {
    return UnavailableError(what + "bind: Address already in use");
  }
  auto listener = std::make_unique<SimListener>(this, loop->shared_simulation(), loop, port);
  listeners_[{host, port}] = listener.get();
  return std::unique_ptr<io::Listener>(std::move(listener));
}

void SimNetwork::Unbind(const SimListener* listener) {
  std::erase_if(listeners_, [&](const auto& bound) { return bound.second == listener; });
}

SimListener* SimNetwork::Find(const Address& address) const {
  auto it = listeners_.find(address);
  return it == listeners_.end() ? nullptr : it->second;
}

// At the host that was dialled.
void SimNetwork::Arrive(const std::shared_ptr<Dial>& dial) {
  const std::string& from = dial->loop->address();
  SimListener* listener = Find({dial->host, dial->port});
  std::shared_ptr<SimConnection> connection;
  if (listener != nullptr && !Throw(faults.refused, NetworkFault::kRefused)) {
    const bool loopback = dial->host == "127.0.0.1" || dial->host == "::1";
    const std::string& caller = loopback ? dial->host : from;
    connection = std::make_shared<SimConnection>(
        this, dial->loop->shared_simulation(), SimConnection::End{from, NameOf(caller, NextPort())},
        SimConnection::End{loopback ? from : dial->host, NameOf(dial->host, dial->port)});
    connections_.push_back(connection);
    // Nobody answers a host whose queue is full; it tries again until its time is over.
    if (!listener->Offer(connection)) return;
  }
  // Weakly: an event of the simulation must not keep the simulation.
  Deliver(dial->host, from, simulation_->Now() + Delay(), [dial, weak = std::weak_ptr(connection)] {
    const auto connection = weak.lock();
    if (dial->late) {
      if (connection != nullptr) connection->Close(0);
      return;
    }
    if (connection == nullptr) dial->refused = UnavailableError("Connection refused");
    dial->connection = connection;
    dial->spot.Wake();
  });
}

io::Task<Result<std::unique_ptr<io::Stream>>> SimNetwork::Connect(SimLoop* loop,
                                                                  io::Endpoint endpoint,
                                                                  Duration timeout) {
  const std::string what = "connect " + endpoint.ToString();
  const std::string host = HostOf(endpoint.host);
  if (host.empty()) co_return UnavailableError(what + ": Name or service not known");
  if (loop->draining()) co_return CancelledError(what + ": the loop has stopped");
  const auto dial = std::make_shared<Dial>(loop, host, endpoint.port);
  const auto timer = loop->StartTimer(loop->Now() + timeout, [dial] {
    dial->late = true;
    dial->spot.Wake();
  });
  Deliver(loop->address(), host, simulation_->Now() + Delay(), [this, weak = std::weak_ptr(dial)] {
    if (const auto still = weak.lock(); still != nullptr && !still->late) Arrive(still);
  });
  co_await dial->spot.Wait(loop);
  const auto connection = std::move(dial->connection);
  if (loop->draining()) {
    dial->late = true;
    if (connection != nullptr) connection->Close(0);
    co_return CancelledError(what + ": the loop has stopped");
  }
  if (connection != nullptr) co_return std::make_unique<SimStream>(connection, 0, loop);
  if (!dial->refused.ok()) co_return dial->refused.WithContext(what);
  dial->late = true;
  co_return DeadlineError(what + ": timed out");
}

}  // namespace ember::sim
