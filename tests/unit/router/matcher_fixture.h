// A PrefixMatcher with its index and two replicas, "a" and "b", which were told nothing yet.
#pragma once

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "router/matching/prefix_matcher.h"

namespace ember::router {

class PrefixMatcherTest : public testing::Test {
 protected:
  PrefixMatcherTest() {
    for (const char* id : {"a", "b"}) {
      ReplicaConfig config{.id = id};
      config.http = {"127.0.0.1", 9};
      EXPECT_TRUE(replicas.Add(std::move(config)).ok());
    }
    for (const ReplicaNumber n : replicas.numbers()) {
      replicas.at(n).holder = index.AddHolder(HolderKind::kReplica);
    }
  }

  static TokenizedPrompt Prompt(TokenId first, uint32_t tokens) {
    TokenizedPrompt prompt{.token_count = tokens};
    prompt.tokens.resize(tokens);
    std::iota(prompt.tokens.begin(), prompt.tokens.end(), first);
    return prompt;
  }

  // Tokens on the device of each replica.
  std::vector<uint32_t> Held(const TokenizedPrompt& prompt, PrefixMatcher::Scope scope = {}) {
    std::vector<Candidate> candidates;
    for (const ReplicaNumber n : replicas.numbers()) {
      candidates.push_back({.replica = &replicas.at(n).view, .match = {}, .number = n});
    }
    input = {};
    matcher.Match(prompt, scope, &candidates, &input);
    std::vector<uint32_t> held;
    stored.clear();
    for (const Candidate& c : candidates) {
      held.push_back(c.match.device_tokens);
      stored.push_back(c.match.store_tokens.value_or(input.store_tokens));
    }
    return held;
  }
  // For each replica, of what Held was asked last.
  const std::vector<uint32_t>& Stored() const { return stored; }

  void GiveAgent(ReplicaNumber n, const NamespaceRoot& root, const TokenizedPrompt& holds) {
    AgentSnapshot snapshot{.replica_id = "a",
                           .ns = root.id,
                           .namespace_seed = root.seed,
                           .tokens_per_block = 16,
                           .held = {},
                           .report = {.healthy = true, .load_tokens_per_ms = 10},
                           .model = "m"};
    HashChain chain(root, 16);
    chain.Append(holds.AllTokens());
    HeldChain held{.slot = 0, .blocks = {}};
    for (const ChainBlock& block : chain.blocks()) held.blocks.push_back(block.hash);
    replicas.ApplySnapshot(n, snapshot, TimePoint());
    matcher.Forget(n);
    index.Reset(replicas.at(n).holder, {held});
  }

  ReplicaSet replicas{HealthOptions{}};
  PrefixIndex index{PrefixIndexOptions{}};
  SystemRandom random;
  PrefixMatcher matcher{replicas, index, random, nullptr};
  PolicyInput input;
  std::vector<uint32_t> stored;
};

using Tokens = std::vector<uint32_t>;

}  // namespace ember::router
