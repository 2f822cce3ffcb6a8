// ModelDirectory: which members of the fleet take requests for which model, as they were declared
// or as their engines list them. Plain values; one thread (the router's loop).
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "proto/base/time.h"
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
  kNotAsked,  // nobody knows yet: the last resort; of one that declares models, for adapters
};

struct ModelList {
  std::vector<ServedModel> models{};
  TakesMore more = TakesMore::kAnything;
  // SGLang: a request asks for an adapter by the model BASE:ADAPTER; a name alone, though it is
  // listed as an adapter's, is the base model's.
  bool adapters_by_colon = false;
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
  // They are members no more. Names that nobody else lists are remembered, for they may be back.
  void Remove(std::span<const ReplicaNumber> members, TimePoint now);

  // Whom a request for `model` may be sent to; "": it names none. `usable`: who is, now. Those that
  // were not asked yet are among them only when nobody else is usable.
  MemberSet TakersOf(std::string_view model, const MemberSet& usable) const;
  // Whether that one would take it, if it had to.
  bool MayTake(ReplicaNumber member, std::string_view model) const;
  // Whether some model of the one is taken by the other, too.
  bool Overlap(ReplicaNumber one, ReplicaNumber other) const;
  // Whether any member, usable or not, lists the model; and any model at all.
  bool Lists(std::string_view model) const { return entries_.contains(model); }
  // Whether it is one that was listed until a few minutes ago, when its last member went.
  bool ListedLately(std::string_view model, TimePoint now) const;
  bool any_not_asked() const { return not_asked_.any(); }
  bool empty() const { return entries_.empty(); }
  // The model that `model` is an adapter of, listed as one or named BASE:ADAPTER; "": of none that
  // is known.
  std::string_view BaseOf(std::string_view model) const;
  // The adapter that a request asks for, whether or not it is listed; "": the base model is asked
  // for; nothing: nobody here knows. `lora_path`: SGLang's member of that name; "": there is none.
  // A view of an argument.
  std::optional<std::string_view> AdapterOf(std::string_view model,
                                            std::string_view lora_path) const;
  // All that are listed, once: adapters last, else as the replicas list them, the first one's
  // first.
  std::vector<std::string_view> InOrder() const;
  // By name.
  const std::map<std::string, Entry, std::less<>>& entries() const { return entries_; }
  // Of the replica whose first member that is; without `json`.
  const ModelList& ListOf(ReplicaNumber first) const;

 private:
  struct Departed {
    std::string model;
    TimePoint at;
  };
  // Who takes a model that nobody lists as BASE:ADAPTER.
  MemberSet ByColon(std::string_view model) const;
  // What is known of them. `departed`: the names that nobody lists any more go there.
  void Forget(std::span<const ReplicaNumber> members, std::vector<std::string>* departed);

  std::map<std::string, Entry, std::less<>> entries_;
  std::map<ReplicaNumber, ModelList> lists_;  // by the replica's first member
  MemberSet unlisted_, anything_, not_asked_, adapters_not_asked_;
  MemberSet by_colon_;             // whose adapters are asked for so
  std::deque<Departed> departed_;  // oldest first; bounded
};

}  // namespace ember::router
