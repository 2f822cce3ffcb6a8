// ModelDirectory: which members of the fleet take requests for which model, as they were declared
// or as their engines list them. Plain values; one thread (the router's loop).
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "router/fleet/replica_number.h"

namespace ember::router {

struct ServedModel {
  std::string name;
  std::string base{};  // the model that it is an adapter of; empty: it is none
  std::string json{};  // as its engine lists it; empty: it was only declared
};

// What a replica takes beyond the models that it lists.
enum class TakesMore : uint8_t {
  kNothing,   // its engine knows its own names
  kUnlisted,  // names that nobody lists: its engine answers to any
  kAnything,  // it lists none, so that none can be held against it
  kNotAsked,  // nobody knows yet: the last resort
};

struct ModelList {
  std::vector<ServedModel> models{};
  TakesMore more = TakesMore::kAnything;
};

class ModelDirectory {
 public:
  struct Entry {
    MemberSet members;
    std::string base;  // as the member that was heard last says
    std::string json;  // likewise
  };

  // `members`: of one replica. Replaces what was known of them.
  void Set(std::span<const ReplicaNumber> members, ModelList list);
  // They are no members any more, or not of this replica.
  void Remove(std::span<const ReplicaNumber> members);

  // Whom a request for `model` may be sent to; "": it names none. `usable`: who is, now. Those that
  // were not asked yet are among them only when nobody else is usable.
  MemberSet TakersOf(std::string_view model, const MemberSet& usable) const;
  // Whether that one would take it, if it had to.
  bool MayTake(ReplicaNumber member, std::string_view model) const;
  // Whether some model of the one is taken by the other, too.
  bool Overlap(ReplicaNumber one, ReplicaNumber other) const;
  // Whether any member, usable or not, lists the model; and any model at all.
  bool Lists(std::string_view model) const { return entries_.contains(model); }
  bool any_not_asked() const { return not_asked_.any(); }
  bool empty() const { return entries_.empty(); }
  // The model that `model` is an adapter of; "": of none that is known.
  std::string_view BaseOf(std::string_view model) const;
  // By name.
  const std::map<std::string, Entry, std::less<>>& entries() const { return entries_; }
  // Of the replica whose first member that is; without `json`.
  const ModelList& ListOf(ReplicaNumber first) const;

 private:
  std::map<std::string, Entry, std::less<>> entries_;
  std::map<ReplicaNumber, ModelList> lists_;  // by the replica's first member
  MemberSet unlisted_, anything_, not_asked_;
};

}  // namespace ember::router
