#include "router/fleet/model_directory.h"

#include <algorithm>
#include <utility>

namespace ember::router {

void ModelDirectory::Set(std::span<const ReplicaNumber> members, ModelList list) {
  Remove(members);
  MemberSet bits;
  for (const ReplicaNumber n : members) bits.set(n);
  if (list.more == TakesMore::kUnlisted) unlisted_ |= bits;
  if (list.more == TakesMore::kAnything) anything_ |= bits;
  if (list.more == TakesMore::kNotAsked) not_asked_ |= bits;
  for (ServedModel& model : list.models) {
    Entry& entry = entries_[model.name];
    entry.members |= bits;
    // One that only declares an adapter's name does not know what it is of.
    if (!model.base.empty() || entry.members == bits) entry.base = model.base;
    if (!model.json.empty()) entry.json = std::exchange(model.json, {});
  }
  lists_[members.front()] = std::move(list);
}

void ModelDirectory::Remove(std::span<const ReplicaNumber> members) {
  const auto known = lists_.find(members.front());
  if (known == lists_.end()) return;
  MemberSet others;
  others.set();
  for (const ReplicaNumber n : members) others.reset(n);
  for (MemberSet* set : {&unlisted_, &anything_, &not_asked_}) *set &= others;
  for (const ServedModel& model : known->second.models) {
    const auto entry = entries_.find(model.name);
    if (entry == entries_.end()) continue;
    entry->second.members &= others;
    if (entry->second.members.none()) entries_.erase(entry);
  }
  lists_.erase(known);
}

MemberSet ModelDirectory::TakersOf(std::string_view model, const MemberSet& usable) const {
  if (model.empty()) return MemberSet().set();
  const auto entry = entries_.find(model);
  MemberSet takers = anything_ | (entry == entries_.end() ? unlisted_ : entry->second.members);
  if ((takers & usable).none()) takers |= not_asked_;
  return takers;
}

bool ModelDirectory::MayTake(ReplicaNumber member, std::string_view model) const {
  if (model.empty() || (unlisted_ | anything_ | not_asked_).test(member)) return true;
  const auto entry = entries_.find(model);
  return entry != entries_.end() && entry->second.members.test(member);
}

bool ModelDirectory::Overlap(ReplicaNumber one, ReplicaNumber other) const {
  const MemberSet open = unlisted_ | anything_ | not_asked_;
  if (open.test(one) || open.test(other)) return true;
  const std::vector<ServedModel>& models = ListOf(one).models;
  return std::any_of(models.begin(), models.end(),
                     [&](const ServedModel& m) { return MayTake(other, m.name); });
}

std::string_view ModelDirectory::BaseOf(std::string_view model) const {
  const auto entry = entries_.find(model);
  return entry == entries_.end() ? std::string_view() : entry->second.base;
}

const ModelList& ModelDirectory::ListOf(ReplicaNumber first) const {
  static const ModelList kNone;
  const auto list = lists_.find(first);
  return list == lists_.end() ? kNone : list->second;
}

}  // namespace ember::router
