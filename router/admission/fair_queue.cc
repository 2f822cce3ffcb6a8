#include "router/admission/fair_queue.h"

#include <algorithm>
#include <iterator>
#include <vector>

namespace ember::router {
namespace {

// A request that waits for one full replica holds back no more than these of its own tenant.
constexpr size_t kLookAhead = 32;

}  // namespace

FairQueue::Ticket FairQueue::Push(const Whose& whose, uint32_t cost) {
  const auto [known, new_share] = shares_.try_emplace(whose.share);
  if (new_share) known->second = order_.insert(order_.end(), Share{.name = whose.share});
  const SharePlace share = known->second;
  const auto [tenant, new_tenant] = share->by_name.try_emplace(whose.tenant);
  if (new_tenant) {
    tenant->second = share->tenants.insert(share->tenants.end(), Tenant{.name = whose.tenant});
  }
  tenant->second->waiters.push_back({next_, std::clamp(cost, 1u, kMaxCost)});
  ++share->size;
  places_.emplace(next_, Place{share, tenant->second});
  return next_++;
}

void FairQueue::Take(Place place, std::deque<Waiter>::iterator waiter) {
  places_.erase(waiter->ticket);
  place.tenant->waiters.erase(waiter);
  if (place.tenant->waiters.empty()) {
    place.share->by_name.erase(place.tenant->name);
    place.share->tenants.erase(place.tenant);
  }
  if (--place.share->size > 0) return;
  shares_.erase(place.share->name);
  order_.erase(place.share);
}

void FairQueue::Remove(Ticket ticket) {
  const auto of = places_.find(ticket);
  if (of == places_.end()) return;
  auto& waiters = of->second.tenant->waiters;
  Take(of->second, std::find_if(waiters.begin(), waiters.end(),
                                [&](const Waiter& w) { return w.ticket == ticket; }));
}

std::optional<FairQueue::Ticket> FairQueue::Pop(const std::function<bool(Ticket)>& may_go) {
  struct Next {
    SharePlace share;
    TenantPlace tenant;
    std::deque<Waiter>::iterator waiter;
    uint32_t rounds;  // in which its share can pay for it
  };
  std::vector<Next> ready;
  size_t first = 0;  // of those who are served after the fewest rounds
  for (SharePlace s = order_.begin(); s != order_.end(); ++s) {
    for (TenantPlace t = s->tenants.begin(); t != s->tenants.end(); ++t) {
      const auto end =
          t->waiters.begin() + static_cast<ptrdiff_t>(std::min(t->waiters.size(), kLookAhead));
      const auto waiter =
          std::find_if(t->waiters.begin(), end, [&](const Waiter& w) { return may_go(w.ticket); });
      if (waiter == end) continue;
      const uint32_t missing = waiter->cost - std::min(waiter->cost, s->deficit);
      ready.push_back({s, t, waiter, std::max(missing, 1u)});
      if (ready.back().rounds < ready[first].rounds) first = ready.size() - 1;
      break;
    }
    if (!ready.empty() && ready[first].rounds == 1) break;
  }
  if (ready.empty()) return {};
  // All those rounds at once; whoever stands behind it has not had its turn in the last one.
  const Next next = ready[first];
  for (size_t i = 0; i < ready.size(); ++i) {
    ready[i].share->deficit += next.rounds - (i > first ? 1 : 0);
  }
  next.share->deficit -= next.waiter->cost;
  order_.splice(order_.end(), order_, order_.begin(), std::next(next.share));
  next.share->tenants.splice(next.share->tenants.end(), next.share->tenants, next.tenant);
  const Ticket ticket = next.waiter->ticket;
  Take({next.share, next.tenant}, next.waiter);
  return ticket;
}

std::optional<FairQueue::Ticket> FairQueue::NewestOfMost(Share& share, size_t least) {
  const Tenant* most = nullptr;
  for (const Tenant& t : share.tenants) {
    const size_t n = t.waiters.size();
    if (n <= least) continue;
    const bool more =
        most == nullptr || n > most->waiters.size() ||
        (n == most->waiters.size() && t.waiters.back().ticket > most->waiters.back().ticket);
    if (more) most = &t;
  }
  if (most == nullptr) return {};
  return most->waiters.back().ticket;
}

std::optional<FairQueue::Ticket> FairQueue::PushOutFor(
    const Whose& whose, const std::function<bool(const std::string&)>& counts) {
  const auto mine = shares_.find(whose.share);
  SharePlace most = order_.end();
  size_t least = (mine == shares_.end() ? 0 : mine->second->size) + 1;
  for (SharePlace s = order_.begin(); s != order_.end(); ++s) {
    if (s->size <= least || !counts(s->name)) continue;
    most = s;
    least = s->size;
  }
  std::optional<Ticket> newest;
  if (most != order_.end()) {
    newest = NewestOfMost(*most, 0);
  } else if (mine != shares_.end() && counts(whose.share)) {
    const auto tenant = mine->second->by_name.find(whose.tenant);
    const bool known = tenant != mine->second->by_name.end();
    newest = NewestOfMost(*mine->second, known ? tenant->second->waiters.size() + 1 : 1);
  }
  if (newest) Remove(*newest);
  return newest;
}

}  // namespace ember::router
