#include "router/admission/fair_queue.h"

#include <algorithm>
#include <iterator>

namespace ember::router {
namespace {

// A request that waits for one full replica holds back no more than these of its own tenant.
constexpr size_t kLookAhead = 32;

}  // namespace

FairQueue::Ticket FairQueue::Push(const std::string& tenant, uint32_t cost) {
  const auto [place, inserted] = places_.try_emplace(tenant);
  if (inserted) place->second = order_.insert(order_.end(), Tenant{.name = tenant, .waiters = {}});
  place->second->waiters.push_back({next_, std::clamp(cost, 1u, kMaxCost)});
  tenant_of_.emplace(next_, place->second);
  return next_++;
}

void FairQueue::Take(Place tenant, std::deque<Waiter>::iterator waiter) {
  tenant_of_.erase(waiter->ticket);
  tenant->waiters.erase(waiter);
  if (!tenant->waiters.empty()) return;
  places_.erase(tenant->name);
  order_.erase(tenant);
}

void FairQueue::Remove(Ticket ticket) {
  const auto of = tenant_of_.find(ticket);
  if (of == tenant_of_.end()) return;
  const Place tenant = of->second;
  Take(tenant, std::find_if(tenant->waiters.begin(), tenant->waiters.end(),
                            [&](const Waiter& w) { return w.ticket == ticket; }));
}

std::optional<FairQueue::Ticket> FairQueue::Pop(const std::function<bool(Ticket)>& may_go) {
  // A tenant passed over for its deficit has enough after at most this many rounds.
  size_t turns = order_.size() * (kMaxCost / kQuantum + 1);
  size_t idle = 0;  // tenants in a row none of whose requests may go
  while (turns-- > 0 && idle < order_.size()) {
    const Place tenant = order_.begin();
    const auto end = tenant->waiters.begin() +
                     static_cast<ptrdiff_t>(std::min(tenant->waiters.size(), kLookAhead));
    const auto waiter = std::find_if(tenant->waiters.begin(), end,
                                     [&](const Waiter& w) { return may_go(w.ticket); });
    if (waiter != end && waiter->cost <= tenant->deficit) {
      const Ticket ticket = waiter->ticket;
      tenant->deficit -= waiter->cost;
      Take(tenant, waiter);
      return ticket;
    }
    if (waiter == end) {
      ++idle;
    } else {
      idle = 0;
      tenant->deficit += kQuantum;
    }
    order_.splice(order_.end(), order_, tenant);
  }
  return {};
}

std::optional<FairQueue::Ticket> FairQueue::PushOutFor(
    const std::string& tenant, const std::function<bool(const std::string&)>& counts) {
  const auto mine = places_.find(tenant);
  const size_t with_another = (mine == places_.end() ? 0 : mine->second->waiters.size()) + 1;
  Place most = order_.end();
  for (Place t = order_.begin(); t != order_.end(); ++t) {
    const size_t least = most == order_.end() ? with_another : most->waiters.size();
    if (t->waiters.size() > least && counts(t->name)) most = t;
  }
  if (most == order_.end()) return {};
  const Ticket newest = most->waiters.back().ticket;
  Take(most, std::prev(most->waiters.end()));
  return newest;
}

}  // namespace ember::router
