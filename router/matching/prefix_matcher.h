// PrefixMatcher: how much of a prompt each replica and the stores hold, and what the fleet holds
// more of once a decision was made. It knows by which names each replica's blocks go.
//
// A replica's blocks go by the names of its agent's namespace, or by those that its KV events are
// given; where there is neither, or none of the prompt's kind, by names of the router's own, and
// then the replica is presumed to hold what was sent to it, as an engine's cache would keep it.
// Concurrency: one thread (the router's loop). What it refers to must outlive it.
#pragma once

#include <optional>
#include <vector>

#include "proto/base/random.h"
#include "router/events/event_feed.h"
#include "router/fleet/replica_set.h"
#include "router/index/prefix_index.h"
#include "router/index/presumed_caches.h"
#include "router/policy/policy.h"
#include "router/tokenize/tokenized_prompt.h"

namespace ember::router {

class PrefixMatcher {
 public:
  // `events` may be null: no replica publishes any.
  PrefixMatcher(ReplicaSet& replicas, PrefixIndex& index, RandomSource& random, EventFeed* events)
      : replicas_(replicas),
        index_(index),
        events_(events),
        secret_(random.Next()),
        presumed_(index, random.Next()) {}

  // What of the fleet's memory a request may use.
  struct Scope {
    bool replicas = true;
    bool stores = true;
  };
  // Fills in the candidates' matches and how full their caches are, and what of `input` speaks of
  // the prompt.
  void Match(const TokenizedPrompt& prompt, Scope scope, std::vector<Candidate>* candidates,
             PolicyInput* input);

  // What Presume remembers for Settle.
  struct Presumed {
    HolderId holder = kNoHolder;
    std::vector<PrefixIndex::Presumption> reported{};  // of a replica that reports
    EventFeed::Promise promise{};                      // of one that publishes events
    std::vector<PresumedCaches::Use> before;           // of one that doesn't
    uint32_t when = 0;                                 // likewise: PresumedCaches::now
    std::vector<BlockHash> removed;                    // see EventFeed::OnSent
    size_t predicted_blocks = 0;
    bool counted_alone = true;  // see TokenizedPrompt
  };
  // The replica is sent the prompt, so it will hold it.
  Presumed Presume(ReplicaNumber replica, const TokenizedPrompt& prompt);
  // The request is over. `cached`: prompt tokens that the engine had not to compute, if it said so.
  void Settle(const Presumed& presumed, std::optional<uint64_t> cached);
  // The request came to nothing before the replica computed any of it, as far as anybody knows.
  void TakeBack(ReplicaNumber replica, const TokenizedPrompt& prompt, const Presumed& presumed);
  // The stores lacked what is beyond the first `found` tokens of the prompt.
  void ForgetStored(ReplicaNumber replica, const TokenizedPrompt& prompt, uint64_t found);

  // The prompt's blocks as the replica's agent names them; null when it can't be asked of them.
  const BlockChain* AgentChain(ReplicaNumber replica, const TokenizedPrompt& prompt) const;

  // What was reported or presumed of the replica's memory is void.
  void Forget(ReplicaNumber replica);

 private:
  // By which names a replica's blocks go, for one prompt.
  enum class Naming : uint8_t { kAgent, kEvents, kOurs };
  Naming NamingOf(const ReplicaSet::Member& member, const TokenizedPrompt& prompt) const;
  uint64_t HeldTokens(const ReplicaSet::Member& member) const;
  // Whether others are known to go on in their own ways after the prompt's first `tokens`, which
  // the replica holds.
  bool Branches(const ReplicaSet::Member& member, const TokenizedPrompt& prompt,
                uint64_t tokens) const;
  KeySpace OurSpace(const TokenizedPrompt& prompt) const;
  // `ours`: OurSpace of the prompt, once it was needed.
  const std::vector<BlockHash>& ChainFor(const ReplicaSet::Member& member,
                                         const TokenizedPrompt& prompt,
                                         std::optional<KeySpace>* ours) const;

  ReplicaSet& replicas_;
  PrefixIndex& index_;
  EventFeed* const events_;
  const uint64_t secret_;
  PresumedCaches presumed_;
};

}  // namespace ember::router
