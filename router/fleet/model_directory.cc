#include "router/fleet/model_directory.h"

#include <algorithm>
#include <utility>

namespace ember::router {
namespace {

// A name that a DNS answer or a fleet file left out for a moment is soon back.
constexpr Duration kRemembered = seconds(300);
constexpr size_t kMaxRemembered = 4096;

}  // namespace

void ModelDirectory::Set(std::span<const ReplicaNumber> members, ModelList list) {
  Forget(members, nullptr);
  MemberSet bits;
  for (const ReplicaNumber n : members) bits.set(n);
  if (list.more == TakesMore::kUnlisted) unlisted_ |= bits;
  if (list.more == TakesMore::kAnything) anything_ |= bits;
  if (list.more == TakesMore::kNotAsked) {
    (list.models.empty() ? not_asked_ : adapters_not_asked_) |= bits;
  }
  for (ServedModel& model : list.models) {
    Entry& entry = entries_[model.name];
    entry.members |= bits;
    // One that only declares an adapter's name does not know what it is of.
    if (!model.base.empty() || entry.members == bits) entry.base = model.base;
    if (!model.json.empty()) entry.json = std::exchange(model.json, {});
  }
  lists_[members.front()] = std::move(list);
}

void ModelDirectory::Remove(std::span<const ReplicaNumber> members, TimePoint now) {
  std::vector<std::string> models;
  Forget(members, &models);
  for (std::string& model : models) departed_.push_back({std::move(model), now});
  while (departed_.size() > kMaxRemembered) departed_.pop_front();
}

bool ModelDirectory::ListedLately(std::string_view model, TimePoint now) const {
  return std::any_of(departed_.begin(), departed_.end(), [&](const Departed& d) {
    return d.model == model && now - d.at < kRemembered;
  });
}

void ModelDirectory::Forget(std::span<const ReplicaNumber> members,
                            std::vector<std::string>* departed) {
  const auto known = lists_.find(members.front());
  if (known == lists_.end()) return;
  MemberSet others;
  others.set();
  for (const ReplicaNumber n : members) others.reset(n);
  for (MemberSet* set : {&unlisted_, &anything_, &not_asked_, &adapters_not_asked_}) *set &= others;
  for (const ServedModel& model : known->second.models) {
    const auto entry = entries_.find(model.name);
    if (entry == entries_.end()) continue;
    entry->second.members &= others;
    if (entry->second.members.any()) continue;
    if (departed != nullptr) departed->push_back(entry->first);
    entries_.erase(entry);
  }
  lists_.erase(known);
}

MemberSet ModelDirectory::TakersOf(std::string_view model, const MemberSet& usable) const {
  if (model.empty()) return MemberSet().set();
  const auto entry = entries_.find(model);
  const bool listed = entry != entries_.end();
  MemberSet takers = anything_ | (listed ? entry->second.members : unlisted_);
  if ((takers & usable).none()) takers |= listed ? not_asked_ : not_asked_ | adapters_not_asked_;
  return takers;
}

bool ModelDirectory::MayTake(ReplicaNumber member, std::string_view model) const {
  if (model.empty() || (unlisted_ | anything_ | not_asked_).test(member)) return true;
  const auto entry = entries_.find(model);
  return entry == entries_.end() ? adapters_not_asked_.test(member)
                                 : entry->second.members.test(member);
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

std::string_view ModelDirectory::AdapterOf(std::string_view model,
                                           std::string_view lora_path) const {
  if (!BaseOf(model).empty()) return model;
  const size_t colon = std::min(model.find(':'), model.size());
  const std::string_view named = model.substr(std::min(colon + 1, model.size()));
  const std::string_view base = BaseOf(named);
  if (!base.empty() && base == model.substr(0, colon)) return named;
  return BaseOf(lora_path).empty() ? std::string_view() : lora_path;
}

const ModelList& ModelDirectory::ListOf(ReplicaNumber first) const {
  static const ModelList kNone;
  const auto list = lists_.find(first);
  return list == lists_.end() ? kNone : list->second;
}

}  // namespace ember::router
