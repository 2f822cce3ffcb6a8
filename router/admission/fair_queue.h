// FairQueue: who waits, share by share, and who is next: deficit round robin (Shreedhar and
// Varghese, 1995), so that each share gets as much of what is served, measured in cost, however
// many requests stand in it. Within a share its tenants take turns; within a tenant: first come,
// first served. So whoever can invent tenants gains nothing as long as they are of his share.
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
  struct Whose {
    std::string share;
    std::string tenant;  // within it
  };

  // The largest cost that counts. In a round a share may spend 1, so that of the cheapest requests
  // it sends one each time: who has few does not wait for many of who has many.
  static constexpr uint32_t kMaxCost = 64;

  // Tickets are never given twice. `cost` is taken as 1 to kMaxCost.
  Ticket Push(const Whose& whose, uint32_t cost);
  // No longer waits; an unknown ticket is ignored.
  void Remove(Ticket ticket);
  // Takes out the next one for whom `may_go` holds; nothing when there is none. Of each tenant only
  // its first few are asked about.
  std::optional<Ticket> Pop(const std::function<bool(Ticket)>& may_go);

  // Takes out the newest one of the tenant with most, in the share with most, if these are more
  // than the share of `whose` would have with another one; else in that share, if these are more
  // than the tenant would have. Only of shares for whom `counts` holds.
  std::optional<Ticket> PushOutFor(const Whose& whose,
                                   const std::function<bool(const std::string&)>& counts);

  size_t size() const { return places_.size(); }
  size_t shares() const { return shares_.size(); }

 private:
  struct Waiter {
    Ticket ticket;
    uint32_t cost;
  };
  struct Tenant {
    std::string name;
    std::deque<Waiter> waiters;  // never empty
  };
  using TenantPlace = std::list<Tenant>::iterator;
  struct Share {
    std::string name;
    std::list<Tenant> tenants;  // whose turn it is first; never empty
    std::unordered_map<std::string, TenantPlace> by_name;
    size_t size = 0;       // waiters
    uint32_t deficit = 0;  // what it may spend: left of the rounds so far
  };
  using SharePlace = std::list<Share>::iterator;
  struct Place {
    SharePlace share;
    TenantPlace tenant;
  };

  void Take(Place place, std::deque<Waiter>::iterator waiter);
  // The newest of the share's tenant with most, of those that have more than `least`.
  static std::optional<Ticket> NewestOfMost(Share& share, size_t least);

  std::list<Share> order_;  // whose turn it is first
  std::unordered_map<std::string, SharePlace> shares_;
  std::unordered_map<Ticket, Place> places_;
  Ticket next_ = 1;
};

}  // namespace ember::router
