// DeadlineTable: things with an id, an owner and a deadline (open puts, leases), findable by each.
#pragma once

#include <cstdint>
#include <limits>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "proto/base/check.h"
#include "proto/base/time.h"

namespace ember::kv {

// Whoever opened something: a connection. What it leaves open ends with it.
using OwnerId = uint64_t;
inline constexpr OwnerId kNoOwner = 0;  // what is nobody's ends by its deadline, or when told to

// Pointers to values stay valid until the value is erased.
template <typename Id, typename Value>
class DeadlineTable {
 public:
  // `id` must be new.
  Value* Insert(const Id& id, OwnerId owner, TimePoint deadline, Value value) {
    auto [it, inserted] = items_.try_emplace(id, Item{owner, deadline, std::move(value)});
    EMBER_CHECK(inserted, "ids are unique");
    by_owner_.insert({owner, id});
    by_deadline_.insert({deadline, id});
    return &it->second.value;
  }
  Value* Find(const Id& id) {
    auto it = items_.find(id);
    return it == items_.end() ? nullptr : &it->second.value;
  }
  // Only if it is this owner's.
  Value* Find(const Id& id, OwnerId owner) {
    auto it = items_.find(id);
    return it == items_.end() || it->second.owner != owner ? nullptr : &it->second.value;
  }
  void Erase(const Id& id) {
    auto it = items_.find(id);
    by_owner_.erase({it->second.owner, id});
    by_deadline_.erase({it->second.deadline, id});
    items_.erase(it);
  }
  std::vector<Id> OwnedBy(OwnerId owner) const {
    std::vector<Id> ids;
    for (auto it = by_owner_.lower_bound({owner, Id{}});
         it != by_owner_.end() && it->first == owner; ++it) {
      ids.push_back(it->second);
    }
    return ids;
  }
  std::vector<Id> DueAt(TimePoint now) const {
    std::vector<Id> ids;
    for (auto it = by_deadline_.begin(); it != by_deadline_.end() && it->first <= now; ++it) {
      ids.push_back(it->second);
    }
    return ids;
  }
  size_t size() const { return items_.size(); }

 private:
  struct Item {
    OwnerId owner;
    TimePoint deadline;
    Value value;
  };
  struct Hash {
    // Ids are random already.
    size_t operator()(const Id& id) const {
      if constexpr (std::is_integral_v<Id>) {
        return id;
      } else {
        return id.low;
      }
    }
  };

  std::unordered_map<Id, Item, Hash> items_;
  std::set<std::pair<OwnerId, Id>> by_owner_;
  std::set<std::pair<TimePoint, Id>> by_deadline_;
};

}  // namespace ember::kv
