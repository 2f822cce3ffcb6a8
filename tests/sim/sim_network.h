// SimNetwork: how bytes get from one loop of a simulation to another: listeners by address and
// port, links that can be cut, and the faults that connections suffer.
//
// What arrives over a link that is cut is held back, as TCP sends it again until it gets through:
// nobody is told. Concurrency: the simulation's thread. Life: the simulation owns it.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "client/io/stream.h"
#include "tests/sim/network_faults.h"
#include "tests/sim/simulation.h"

namespace ember::sim {

class SimListener;
class SimLoop;

class SimNetwork {
 public:
  explicit SimNetwork(Simulation* simulation) : simulation_(simulation) {}

  // May be changed at any time; buffers are those of new connections.
  NetworkFaults faults;
  NetworkFaultCount injected;

  // Nothing gets through between the two hosts, in either direction, until they are joined again.
  void Cut(const std::string& a, const std::string& b) { cut_.insert(Link(a, b)); }
  void Join(const std::string& a, const std::string& b);
  // Every connection of this host breaks at once, and nobody on the other side is told before it
  // sends something: the host has lost power.
  void LosePower(const std::string& host);

  // For loops.
  Result<std::unique_ptr<io::Listener>> Listen(SimLoop* loop, const io::Endpoint& endpoint);
  io::Task<Result<std::unique_ptr<io::Stream>>> Connect(SimLoop* loop, io::Endpoint endpoint,
                                                        Duration timeout);

  // For connections and listeners.
  Simulation* simulation() const { return simulation_; }
  bool Throw(double probability, NetworkFault fault);
  Duration Delay() { return simulation_->dice().Between(faults.delay_min, faults.delay_max); }
  // Runs `fn` at `when`, or when the link is whole again.
  void Deliver(const std::string& from, const std::string& to, TimePoint when,
               std::function<void()> fn);
  void Unbind(const SimListener* listener);

 private:
  using Address = std::pair<std::string, uint16_t>;
  struct Dial;

  static std::pair<std::string, std::string> Link(const std::string& a, const std::string& b) {
    return std::minmax(a, b);
  }
  void Arrive(const std::shared_ptr<Dial>& dial);
  SimListener* Find(const Address& address) const;
  uint16_t NextPort() { return next_port_ = next_port_ < 60000 ? next_port_ + 1 : 20001; }

  Simulation* const simulation_;
  std::map<Address, SimListener*> listeners_;
  std::set<std::pair<std::string, std::string>> cut_;
  std::map<std::pair<std::string, std::string>, std::vector<std::function<void()>>> held_;
  std::vector<std::weak_ptr<class SimConnection>> connections_;
  uint16_t next_port_ = 20000;
};

}  // namespace ember::sim
