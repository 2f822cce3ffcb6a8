// FairQueue: who waits, tenant by tenant, and who is next: deficit round robin (Shreedhar and
// Varghese, 1995), so that each tenant gets an equal share of what is served, measured in cost,
// however many requests it sends at once. Within a tenant: first come, first served.
//
// Pure; one thread. Bounded by its user.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <optional>
#include <string>
#include <unordered_map>

namespace ember::router {

class FairQueue {
 public:
  using Ticket = uint64_t;

  // The largest cost that counts, and what a tenant may spend in a round.
  static constexpr uint32_t kMaxCost = 64;
  static constexpr uint32_t kQuantum = 16;

  // Tickets are never given twice. `cost` is taken as 1 to kMaxCost.
  Ticket Push(const std::string& tenant, uint32_t cost);
  // No longer waits; an unknown ticket is ignored.
  void Remove(Ticket ticket);
  // Takes out the next one for whom `may_go` holds; nothing when there is none. Of each tenant only
  // its first few are asked about.
  std::optional<Ticket> Pop(const std::function<bool(Ticket)>& may_go);

  // The same of the newest one of the tenant with most, if these are more than `tenant` would have
  // with another one. Only tenants for whom `counts` holds.
  std::optional<Ticket> PushOutFor(const std::string& tenant,
                                   const std::function<bool(const std::string&)>& counts);

  size_t size() const { return tenant_of_.size(); }
  size_t tenants() const { return order_.size(); }

 private:
  struct Waiter {
    Ticket ticket;
    uint32_t cost;
  };
  struct Tenant {
    std::string name;
    std::deque<Waiter> waiters;  // never empty
    uint32_t deficit = 0;        // what it may still spend in this round
  };
  using Place = std::list<Tenant>::iterator;

  void Take(Place tenant, std::deque<Waiter>::iterator waiter);

  std::list<Tenant> order_;  // whose turn it is first
  std::unordered_map<std::string, Place> places_;
  std::unordered_map<Ticket, Place> tenant_of_;
  Ticket next_ = 1;
};

}  // namespace ember::router
