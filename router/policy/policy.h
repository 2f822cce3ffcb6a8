// Policy: chooses the replica of one request. A pure function of a snapshot: no clock, no locks, no
// memory between calls, so that the same input gives the same decision and `explain` can be
// trusted.
//
// Concurrency: policies have no state; any thread. Owned by the registry for the process's life.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "proto/model/routing.h"

namespace ember::router {

// One replica that may serve the request: healthy, and not tried already.
struct Candidate {
  const Replica* replica = nullptr;  // never null; lives as long as the call
  PrefixMatch match;                 // of this prompt; zero when its tokens are unknown
  double service_ms = 0;  // mean time that a request holds a slot after its prefill; 0: unknown
  uint32_t number = 0;    // the caller's own; policies don't look at it
};

struct PolicyInput {
  std::span<const Candidate> candidates;  // at least one, in a stable order
  std::string_view conversation_id;       // X-Conversation-Id, or empty
  bool tokens_known = false;              // prompt_tokens, store_tokens and matches mean something
  uint64_t prompt_tokens = 0;
  uint64_t store_tokens = 0;  // unbroken from the start, presumed to be in the store
  // The longest match on a device, if other prompts go on after it in their own ways; else 0.
  uint64_t branch_tokens = 0;
  uint64_t draw = 0;  // uniform random bits, fresh for each request
  uint64_t turn = 0;  // number of decisions of this policy so far
};

class Policy {
 public:
  virtual ~Policy() = default;
  virtual std::string_view name() const = 0;
  // False: the caller saves itself the tokenizer and the index.
  virtual bool needs_tokens() const { return false; }
  virtual RoutingDecision Decide(const PolicyInput& input) const = 0;
};

}  // namespace ember::router
