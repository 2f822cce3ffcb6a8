#include "router/matching/prefix_matcher.h"

#include <gtest/gtest.h>

#include <functional>
#include <numeric>

namespace ember::router {
namespace {

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

TEST_F(PrefixMatcherTest, AReplicaThatReportsNothingIsPresumedToHoldWhatItWasSent) {
  EXPECT_EQ(Held(Prompt(0, 1000)), (Tokens{0, 0}));
  EXPECT_TRUE(input.tokens_known);
  EXPECT_EQ(input.prompt_tokens, 1000u);
  const auto presumed = matcher.Presume(1, Prompt(0, 1000));
  EXPECT_EQ(Held(Prompt(0, 1000)), (Tokens{0, 960}));
  EXPECT_EQ(Held(Prompt(0, 2000)), (Tokens{0, 960})) << "the next turn";
  matcher.Settle(presumed, 0);
  EXPECT_EQ(Held(Prompt(0, 1000)), (Tokens{0, 960})) << "it was cold, and is held now";
  EXPECT_EQ(Held(Prompt(0, 1000), {.replicas = false}), (Tokens{0, 0}));
}

TEST_F(PrefixMatcherTest, AReplyThatBeliesThePresumptionTakesAwayAllThatIsAsOld) {  // A8
  matcher.Presume(0, Prompt(5000, 640));
  matcher.Presume(0, Prompt(0, 640));
  matcher.Presume(0, Prompt(9000, 640));
  matcher.Settle(matcher.Presume(0, Prompt(0, 640)), 0);
  EXPECT_EQ(Held(Prompt(5000, 640))[0], 0u) << "older than what was gone";
  EXPECT_EQ(Held(Prompt(9000, 640))[0], 640u) << "younger";
  EXPECT_EQ(Held(Prompt(0, 640))[0], 640u) << "just computed";
  // Counts that agree to within a block, and replies without counts, change nothing.
  matcher.Presume(0, Prompt(20000, 640));
  matcher.Presume(0, Prompt(9000, 640));
  matcher.Settle(matcher.Presume(0, Prompt(9000, 640)), 639);
  matcher.Settle(matcher.Presume(0, Prompt(9000, 640)), std::nullopt);
  EXPECT_EQ(Held(Prompt(20000, 640))[0], 640u) << "which is older";
  EXPECT_EQ(Held(Prompt(0, 640))[0], 640u);
}

TEST_F(PrefixMatcherTest, APromptWhoseLogprobsAreAskedForIsComputedWhateverIsHeld) {  // A8
  TokenizedPrompt prompt = Prompt(0, 640);
  matcher.Presume(0, prompt);
  prompt.prompt_logprobs = true;
  EXPECT_EQ(Held(prompt), (Tokens{0, 0}));
  matcher.Settle(matcher.Presume(0, prompt), 0);
  matcher.Settle(matcher.Presume(1, prompt), 0);
  EXPECT_EQ(Held(Prompt(0, 640)), (Tokens{640, 640})) << "its reply says nothing of what was held";
}

TEST_F(PrefixMatcherTest, OfSeveralPromptsTheCountsAreNotTheFirstOnes) {  // A8
  TokenizedPrompt prompt = Prompt(0, 640);
  matcher.Presume(0, Prompt(5000, 640));
  matcher.Presume(0, prompt);
  prompt.several = true;
  EXPECT_EQ(Held(prompt)[0], 640u);
  matcher.Settle(matcher.Presume(0, prompt), 0);
  EXPECT_EQ(Held(Prompt(5000, 640))[0], 640u) << "older than what a count would belie";
}

TEST_F(PrefixMatcherTest, WhatWasNeverComputedIsPresumedNoMore) {
  GiveAgent(0, RootOf({.engine = "llama.cpp", .salt = "s"}), Prompt(0, 640));
  for (bool logprobs : {false, true}) {
    TokenizedPrompt longer = Prompt(0, 1280);
    longer.prompt_logprobs = logprobs;
    for (ReplicaNumber n : {0, 1}) {
      const auto presumed = matcher.Presume(n, longer);
      EXPECT_EQ(Held(Prompt(0, 1280))[n], 1280u);
      matcher.Settle(presumed, std::nullopt);
      matcher.TakeBack(n, longer, presumed);
      EXPECT_EQ(Held(Prompt(0, 1280)), (Tokens{640, 0}));
    }
  }
  // A replica that came back has another holder's number, and its former one may be another's.
  const auto presumed = matcher.Presume(1, Prompt(9000, 640));
  std::swap(replicas.at(0).holder, replicas.at(1).holder);
  matcher.TakeBack(1, Prompt(9000, 640), presumed);
  EXPECT_EQ(Held(Prompt(9000, 640))[0], 640u);
}

TEST_F(PrefixMatcherTest, TheEnginesCapacityBoundsWhatIsPresumed) {
  replicas.at(0).view.cache.capacity_tokens = 20 * 64;
  matcher.Presume(0, Prompt(0, 640));
  matcher.Presume(0, Prompt(5000, 640));
  matcher.Presume(0, Prompt(9000, 640));
  EXPECT_EQ(Held(Prompt(0, 640))[0], 0u);
  EXPECT_EQ(Held(Prompt(9000, 640))[0], 640u);
  EXPECT_EQ(index.blocks_held(replicas.at(0).holder), 20u);
}

TEST_F(PrefixMatcherTest, ModelAdapterAndSaltKeepPromptsApart) {  // A14, B3
  TokenizedPrompt base = Prompt(0, 640);
  matcher.Presume(0, base);
  for (std::string TokenizedPrompt::*part :
       {&TokenizedPrompt::model, &TokenizedPrompt::adapter, &TokenizedPrompt::salt}) {
    TokenizedPrompt other = Prompt(0, 640);
    other.*part = "x";
    EXPECT_EQ(Held(other)[0], 0u);
    matcher.Presume(1, other);
    EXPECT_EQ(Held(other)[1], 640u);
  }
  EXPECT_EQ(Held(base), (Tokens{640, 0}));
}

TEST_F(PrefixMatcherTest, AnAgentsBlocksAreFoundByTheTokens) {
  const NamespaceRoot root = RootOf({.engine = "llama.cpp", .salt = "s"});
  GiveAgent(0, root, Prompt(0, 640));
  EXPECT_EQ(Held(Prompt(0, 1000)), (Tokens{640, 0}));
  EXPECT_EQ(input.store_tokens, 640u) << "what was reported is presumed to be in the store";
  replicas.at(0).view.load_tokens_per_ms = 0;
  Held(Prompt(0, 1000));
  EXPECT_EQ(input.store_tokens, 0u) << "there is no store that anybody loads from";
  replicas.at(0).view.load_tokens_per_ms = 10;
  EXPECT_EQ(Held(Prompt(0, 1000), {.stores = false}), (Tokens{640, 0}));
  EXPECT_EQ(input.store_tokens, 0u);
  TokenizedPrompt adapted = Prompt(0, 1000);
  adapted.adapter = "lora";
  EXPECT_EQ(Held(adapted)[0], 0u);
  matcher.ForgetStored(0, Prompt(0, 1000), 320);
  EXPECT_EQ(Held(Prompt(0, 1000)), (Tokens{640, 0}));
  EXPECT_EQ(input.store_tokens, 320u);
}

TEST_F(PrefixMatcherTest, AFleetOfBothKindsIsMatchedInBothNamings) {
  matcher.Presume(1, Prompt(0, 640));
  GiveAgent(0, RootOf({.engine = "llama.cpp"}), Prompt(0, 320));
  EXPECT_EQ(Held(Prompt(0, 1000)), (Tokens{320, 640}));
}

// What the stores hold under one agent's names helps nobody who names blocks otherwise.
TEST_F(PrefixMatcherTest, OnlyWhoseNamesTheStoresUseIsCreditedWithWhatTheyHold) {
  const TokenizedPrompt prompt = Prompt(0, 640);
  GiveAgent(0, RootOf({.engine = "x"}), prompt);
  Held(prompt);
  EXPECT_EQ(input.store_tokens, 640u);
  EXPECT_EQ(Stored(), (Tokens{640, 0})) << "the other one has no agent";
  GiveAgent(1, RootOf({.engine = "y"}), Prompt(9000, 640));
  Held(prompt);
  EXPECT_EQ(Stored(), (Tokens{640, 0})) << "or an agent of another namespace";
  TokenizedPrompt adapted = prompt;
  adapted.adapter = "lora";
  Held(adapted);
  EXPECT_EQ(Stored(), (Tokens{0, 0}));
}

// A fleet that is upgraded half: equal tokens, and neither memory nor store in common.
TEST_F(PrefixMatcherTest, AnotherFormatLayoutOrShardSharesNothing) {  // B5, B8, B9, B10
  const KvNamespace base{.engine = "vllm"};
  for (const auto& change : std::vector<std::function<void(KvNamespace&)>>{
           [](KvNamespace& ns) { ns.layout.key_type = "q8_0"; },
           [](KvNamespace& ns) { ns.weights_digest[0] = std::byte{1}; },
           [](KvNamespace& ns) { ns.adapter_digest[0] = std::byte{1}; },
           [](KvNamespace& ns) { ns.layout.order = "v2"; },
           [](KvNamespace& ns) { ns.engine_version = "2"; },
           [](KvNamespace& ns) { ns.layout.rank_count = 16; }}) {
    KvNamespace other = base;
    change(other);
    GiveAgent(0, RootOf(base), Prompt(0, 640));
    GiveAgent(1, RootOf(other), Prompt(5000, 640));
    EXPECT_EQ(Held(Prompt(0, 1000)), (Tokens{640, 0}));
    EXPECT_EQ(Stored(), (Tokens{640, 0}));
    EXPECT_EQ(Held(Prompt(5000, 1000)), (Tokens{0, 640}));
    EXPECT_EQ(Stored(), (Tokens{0, 640}));
  }
}

TEST_F(PrefixMatcherTest, WithoutASeedOnlyTheAgentsOwnAnswerNamesBlocks) {
  NamespaceRoot root = RootOf({.engine = "llama.cpp"});
  HashChain chain(root, 16);
  chain.Append(Prompt(0, 640).AllTokens());
  TokenizedPrompt answered{.token_count = 640, .ns = root.id};
  for (const ChainBlock& block : chain.blocks()) answered.chain.push_back(block.hash);
  GiveAgent(0, root, Prompt(0, 640));
  root.seed = 0;
  AgentSnapshot silent{.replica_id = "a", .ns = root.id, .tokens_per_block = 16};
  replicas.ApplySnapshot(0, silent, TimePoint());
  EXPECT_EQ(Held(answered)[0], 640u);
  EXPECT_EQ(Held(Prompt(0, 640))[0], 0u);
}

TEST_F(PrefixMatcherTest, WhatIsForgottenIsPresumedAnew) {  // A7
  matcher.Presume(0, Prompt(0, 640));
  matcher.Forget(0);
  EXPECT_EQ(Held(Prompt(0, 640))[0], 0u);
  matcher.Presume(0, Prompt(0, 640));
  EXPECT_EQ(Held(Prompt(0, 640))[0], 640u);
}

// A replica that publishes events is believed, and its own names are used; while they are not
// whole, what it was sent counts as well.
TEST_F(PrefixMatcherTest, AReplicaThatPublishesEventsHasWhatTheySay) {
  MetricsRegistry registry;
  EventMetrics metrics(registry);
  EventFeed events(index, random, metrics);
  PrefixMatcher with_events(replicas, index, random, &events);
  const TokenizedPrompt prompt = Prompt(0, 128);
  const auto held = [&] {
    std::vector<Candidate> candidates{{.replica = &replicas.at(0).view, .match = {}, .number = 0}};
    PolicyInput in;
    with_events.Match(prompt, {}, &candidates, &in);
    return candidates[0].match.device_tokens;
  };
  events.AddSource(1, {.id = "a", .model = "", .holders = {replicas.at(0).holder}}, 0);
  KvStored stored{.block_size = 16, .keys = {EngineKey{1}, EngineKey{2}}};
  stored.tokens.assign(prompt.tokens.begin(), prompt.tokens.begin() + 32);
  events.OnStored(1, std::nullopt, stored);
  EXPECT_EQ(held(), 32u);
  const auto sent = with_events.Presume(0, prompt);
  EXPECT_EQ(held(), 128u);
  with_events.Settle(sent, std::nullopt);
  events.OnLost(1, UnavailableError("gap"));
  EXPECT_EQ(held(), 0u);

  events.OnTrusted(1);
  events.OnStored(1, std::nullopt, stored);
  const auto presumed = with_events.Presume(0, prompt);
  EXPECT_EQ(held(), 128u) << "all of it will be there";
  with_events.Settle(presumed, 32);
  stored.keys = {EngineKey{3}};
  stored.parent = EngineKey{2};
  stored.tokens.assign(prompt.tokens.begin() + 32, prompt.tokens.begin() + 48);
  events.OnStored(1, std::nullopt, stored);
  EXPECT_EQ(held(), 48u) << "its next event knows better";
  for (int i = 0; i < 4; ++i) with_events.Settle(with_events.Presume(0, prompt), 0);
  EXPECT_EQ(held(), 0u) << "replies contradict";
}

TEST_F(PrefixMatcherTest, OnceEventsAreWholeNothingCountsThatWasPresumedBefore) {
  MetricsRegistry registry;
  EventMetrics metrics(registry);
  EventFeed events(index, random, metrics);
  PrefixMatcher with_events(replicas, index, random, &events);
  const TokenizedPrompt prompt = Prompt(0, 640);
  const auto held = [&] {
    std::vector<Candidate> candidates;
    for (const ReplicaNumber n : replicas.numbers()) {
      candidates.push_back({.replica = &replicas.at(n).view, .match = {}, .number = n});
    }
    PolicyInput in;
    with_events.Match(prompt, {}, &candidates, &in);
    return Tokens{candidates[0].match.device_tokens, candidates[1].match.device_tokens};
  };
  const HolderId holder = replicas.at(0).holder;
  events.AddSource(1, {.id = "a", .model = "", .holders = {holder}}, 0);
  KvStored stored{.block_size = 16, .keys = {EngineKey{1}, EngineKey{2}}};
  stored.tokens.assign(prompt.tokens.begin(), prompt.tokens.begin() + 32);
  events.OnStored(1, std::nullopt, stored);
  // Replica 1 stays one that reports nothing, so that our own names are looked up on.
  const auto early = with_events.Presume(0, prompt);
  with_events.Presume(1, prompt);
  EXPECT_EQ(held(), (Tokens{640, 640}));
  EXPECT_EQ(index.blocks_held(holder), 12u);
  events.OnTrusted(1);
  EXPECT_EQ(held(), (Tokens{32, 640}));
  EXPECT_EQ(index.blocks_held(holder), 2u) << "what it told of";
  with_events.Settle(early, 0);
  EXPECT_EQ(held(), (Tokens{32, 640}));
}

// While events are not all that a replica holds, what they take away is not presumed any more.
TEST_F(PrefixMatcherTest, WhatAPartialSourceRemovesIsPresumedNoLonger) {  // A1, A2, A13
  for (const uint32_t size : {16u, 32u, 64u, 128u}) {
    for (const bool window : {false, true}) {
      MetricsRegistry registry;
      EventMetrics metrics(registry);
      EventFeed events(index, random, metrics);
      PrefixMatcher with_events(replicas, index, random, &events);
      const auto held = [&](const TokenizedPrompt& prompt) {
        std::vector<Candidate> candidates{
            {.replica = &replicas.at(0).view, .match = {}, .number = 0}};
        PolicyInput in;
        with_events.Match(prompt, {}, &candidates, &in);
        EXPECT_EQ(candidates[0].match.any_tier_tokens, candidates[0].match.device_tokens);
        return candidates[0].match.device_tokens;
      };
      with_events.Forget(0);
      events.AddSource(1, {.id = "a", .model = "", .holders = {replicas.at(0).holder}}, 0);
      const TokenizedPrompt prompt = Prompt(0, 1280), other = Prompt(5000, 1280);
      KvStored stored{.block_size = size, .keys = {}, .tokens = prompt.tokens};
      for (uint32_t i = 0; i < 1280 / size; ++i) stored.keys.push_back(EngineKey{i + 1});
      const std::vector<EngineKey> keys = stored.keys;
      KvStored windowed = stored;
      windowed.group = 1;
      windowed.window_tokens = 2 * size;
      for (EngineKey& key : windowed.keys) key = EngineKey{uint64_t(key) + 1000};
      with_events.Presume(0, other);
      with_events.Presume(0, prompt);
      events.OnStored(1, std::nullopt, stored);
      if (window) {
        events.OnStored(1, std::nullopt, windowed);
        events.OnRemoved(1, std::nullopt,
                         {.keys = {windowed.keys.begin(), windowed.keys.end() - 2}});
      }
      EXPECT_EQ(held(prompt), 1280u) << "blocks before the window are needed by nobody";
      const auto remove = [&](size_t from, size_t to) {
        events.OnRemoved(1, std::nullopt, {.keys = {keys.begin() + from, keys.begin() + to}});
      };
      remove(keys.size() - 2, keys.size());
      EXPECT_EQ(held(prompt), 1280 - 2 * size);
      remove(4, 5);
      EXPECT_EQ(held(prompt), 4 * size);
      remove(0, keys.size() - 2);
      EXPECT_EQ(held(prompt), 0u) << size << window;
      EXPECT_EQ(held(other), 1280u) << "of which nothing was said";
      const auto again = with_events.Presume(0, prompt);
      EXPECT_EQ(held(prompt), 1280u) << "it was sent there once more";
      with_events.Settle(again, 0);
      EXPECT_EQ(held(other), 1280u) << "nothing of it had been promised";
      events.OnStored(1, std::nullopt, stored);
      remove(0, keys.size());
      EXPECT_EQ(held(prompt), 0u);
      const auto refused = with_events.Presume(0, prompt);
      EXPECT_EQ(held(prompt), 1280u);
      with_events.TakeBack(0, prompt, refused);
      EXPECT_EQ(held(prompt), 0u) << "it computed nothing";
      events.OnStored(1, std::nullopt, stored);
      EXPECT_EQ(held(prompt), 1280u) << "or stored";
    }
  }
}

}  // namespace
}  // namespace ember::router
