#include <functional>

#include "tests/unit/router/matcher_fixture.h"

namespace ember::router {
namespace {

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

TEST_F(PrefixMatcherTest, AMatchBranchesWhereOtherPromptsGoOnAfterIt) {
  GiveAgent(1, RootOf({.engine = "llama.cpp", .salt = "s"}), Prompt(0, 640));
  Held(Prompt(0, 1000));
  EXPECT_EQ(input.branch_tokens, 0u) << "a conversation's next turn";
  TokenizedPrompt other = Prompt(0, 640);
  std::iota(other.tokens.begin() + 160, other.tokens.end(), 7000);
  Held(other);
  EXPECT_EQ(input.branch_tokens, 160u) << "another conversation with the same beginning";
  Held(Prompt(9000, 640));
  EXPECT_EQ(input.branch_tokens, 0u) << "nobody has any of it";
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

}  // namespace
}  // namespace ember::router
