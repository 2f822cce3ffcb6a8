#include "router/fleet/model_directory.h"

#include <algorithm>
#include <set>
#include <utility>

namespace ember::router {
namespace {

// A name that a DNS answer or a fleet file left out for a moment is soon back.
constexpr Duration kRemembered = seconds(300);
constexpr size_t kMaxRemembered = 4096;

// "" when there is no colon, or nothing after it.
std::string_view AfterColon(std::string_view model) {
  const size_t colon = model.find(':');
  return colon == model.npos ? std::string_view() : model.substr(colon + 1);
}

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
  if (list.adapters_by_colon) by_colon_ |= bits;
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
  for (MemberSet* set : {&unlisted_, &anything_, &not_asked_, &adapters_not_asked_, &by_colon_}) {
    *set &= others;
  }
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

std::vector<std::string_view> ModelDirectory::InOrder() const {
  std::vector<std::string_view> models, adapters;
  std::set<std::string_view> seen;
  for (const auto& [first, list] : lists_) {
    for (const ServedModel& model : list.models) {
      const auto entry = entries_.find(model.name);
      if (entry == entries_.end() || !seen.insert(entry->first).second) continue;
      (entry->second.base.empty() ? models : adapters).push_back(entry->first);
    }
  }
  models.insert(models.end(), adapters.begin(), adapters.end());
  return models;
}

MemberSet ModelDirectory::TakersOf(std::string_view model, const MemberSet& usable) const {
  if (model.empty()) return MemberSet().set();
  const auto entry = entries_.find(model);
  const bool listed = entry != entries_.end();
  MemberSet takers = anything_ | (listed ? entry->second.members : unlisted_ | ByColon(model));
  if ((takers & usable).none()) takers |= listed ? not_asked_ : not_asked_ | adapters_not_asked_;
  return takers;
}

MemberSet ModelDirectory::ByColon(std::string_view model) const {
  const auto base = entries_.find(BaseOf(model));
  return base == entries_.end() ? MemberSet() : base->second.members & by_colon_;
}

bool ModelDirectory::MayTake(ReplicaNumber member, std::string_view model) const {
  if (model.empty() || (unlisted_ | anything_ | not_asked_).test(member)) return true;
  const auto entry = entries_.find(model);
  return entry == entries_.end() ? (adapters_not_asked_ | ByColon(model)).test(member)
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
  if (entry != entries_.end()) return entry->second.base;
  const std::string_view adapter = AfterColon(model);
  if (adapter.empty()) return {};
  const std::string_view base = model.substr(0, model.size() - adapter.size() - 1);
  const auto named = entries_.find(base);
  if (named == entries_.end() || !named->second.base.empty()) return {};
  const auto listed = entries_.find(adapter);
  const bool known = listed != entries_.end() && listed->second.base == base;
  // One that was not asked yet may turn out to be SGLang.
  return known || (named->second.members & (by_colon_ | adapters_not_asked_)).any()
             ? std::string_view(named->first)
             : std::string_view();
}

std::optional<std::string_view> ModelDirectory::AdapterOf(std::string_view model,
                                                          std::string_view lora_path) const {
  const auto entry = entries_.find(model);
  if (entry != entries_.end()) {
    const bool adapter = !entry->second.base.empty() && (entry->second.members & ~by_colon_).any();
    return adapter ? model : lora_path;
  }
  const std::string_view after = AfterColon(model);
  if (!BaseOf(model).empty()) return after;
  const MemberSet others = anything_ | not_asked_ | adapters_not_asked_;
  // They answer to any name with their only model.
  const bool all_unlisted = unlisted_.any() && others.none();
  const bool all_by_colon = all_unlisted && (unlisted_ & ~by_colon_).none();
  if (all_by_colon && !after.empty()) return after;
  if (!lora_path.empty() || model.empty()) return lora_path;
  if (all_unlisted && (after.empty() || (unlisted_ & by_colon_).none())) return std::string_view();
  // Of names that nobody lists these know adapters only.
  const bool all_adapters = unlisted_.none() && others.any() && others == adapters_not_asked_;
  return all_adapters ? std::optional(model) : std::nullopt;
}

const ModelList& ModelDirectory::ListOf(ReplicaNumber first) const {
  static const ModelList kNone;
  const auto list = lists_.find(first);
  return list == lists_.end() ? kNone : list->second;
}

}  // namespace ember::router
