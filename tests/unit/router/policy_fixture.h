// Replicas and inputs for the policy tests.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "router/policy/policy.h"

namespace ember::router {

class PolicyFixture {
 public:
  Replica& Add(const std::string& id) {
    Replica& r = replicas_.emplace_back();
    r.id = id;
    r.healthy = true;
    r.prefill.linear_ms = 5;
    r.prefill_basis = PrefillBasis::kEnough;
    r.load.slots_total = 2;
    r.tokens_per_block = 16;
    candidates_.push_back({.replica = &r});
    return r;
  }
  void Remove(const std::string& id) {
    std::erase_if(candidates_, [&](const Candidate& c) { return c.replica->id == id; });
  }
  Candidate& at(size_t i) { return candidates_[i]; }
  PolicyInput Input() const { return {.candidates = candidates_}; }
  PolicyInput Prompt(uint64_t tokens, uint64_t stored = 0) const {
    PolicyInput input = Input();
    input.tokens_known = true;
    input.prompt_tokens = tokens;
    input.store_tokens = stored;
    return input;
  }

 private:
  std::deque<Replica> replicas_;
  std::vector<Candidate> candidates_;
};

}  // namespace ember::router
