// What a replica that publishes events is matched by.
#include <span>

#include "tests/unit/router/matcher_fixture.h"

namespace ember::router {
namespace {

// Replica "a" publishes events.
class EventMatchingTest : public PrefixMatcherTest {
 protected:
  EventMatchingTest() {
    events.AddSource(1, {.id = "a", .model = "", .holders = {replicas.at(0).holder}}, 0);
  }

  // Tokens of the prompt on the device of "a".
  uint32_t HeldAtA(const TokenizedPrompt& prompt) {
    std::vector<Candidate> candidates{{.replica = &replicas.at(0).view, .match = {}, .number = 0}};
    input = {};
    with_events.Match(prompt, {}, &candidates, &input);
    EXPECT_EQ(candidates[0].match.any_tier_tokens, candidates[0].match.device_tokens);
    return candidates[0].match.device_tokens;
  }
  void Remove(std::span<const EngineKey> keys) {
    events.OnRemoved(1, std::nullopt, {.keys = {keys.begin(), keys.end()}});
  }
  // The first blocks of the prompt, of keys 1 and on.
  static KvStored FirstOf(const TokenizedPrompt& prompt, uint32_t blocks, uint32_t size = 16) {
    KvStored stored{.block_size = size, .keys = {}};
    for (uint32_t i = 1; i <= blocks; ++i) stored.keys.push_back(EngineKey{i});
    stored.tokens.assign(prompt.tokens.begin(), prompt.tokens.begin() + blocks * size);
    return stored;
  }

  MetricsRegistry registry;
  EventMetrics metrics{registry};
  EventFeed events{index, random, metrics};
  PrefixMatcher with_events{replicas, index, random, &events};
};

// A replica that publishes events is believed, and its own names are used; while they are not
// whole, what it was sent counts as well.
TEST_F(EventMatchingTest, AReplicaThatPublishesEventsHasWhatTheySay) {
  const TokenizedPrompt prompt = Prompt(0, 128);
  KvStored told = FirstOf(prompt, 2);
  events.OnStored(1, std::nullopt, told);
  EXPECT_EQ(HeldAtA(prompt), 32u);
  const auto sent = with_events.Presume(0, prompt);
  EXPECT_EQ(HeldAtA(prompt), 128u);
  with_events.Settle(sent, std::nullopt);
  events.OnLost(1, UnavailableError("gap"));
  EXPECT_EQ(HeldAtA(prompt), 0u);

  events.OnTrusted(1);
  events.OnStored(1, std::nullopt, told);
  const auto presumed = with_events.Presume(0, prompt);
  EXPECT_EQ(HeldAtA(prompt), 128u) << "all of it will be there";
  with_events.Settle(presumed, 32);
  told.keys = {EngineKey{3}};
  told.parent = EngineKey{2};
  told.tokens.assign(prompt.tokens.begin() + 32, prompt.tokens.begin() + 48);
  events.OnStored(1, std::nullopt, told);
  EXPECT_EQ(HeldAtA(prompt), 48u) << "its next event knows better";
  for (int i = 0; i < 4; ++i) with_events.Settle(with_events.Presume(0, prompt), 0);
  EXPECT_EQ(HeldAtA(prompt), 0u) << "replies contradict";
}

TEST_F(EventMatchingTest, AMatchThatEventsToldOfBranchesToo) {
  const auto branch = [&](const TokenizedPrompt& prompt) {
    (void)HeldAtA(prompt);
    return input.branch_tokens;
  };
  const TokenizedPrompt prompt = Prompt(0, 128);
  events.OnStored(1, std::nullopt, FirstOf(prompt, 3));
  events.OnTrusted(1);
  EXPECT_EQ(branch(prompt), 0u);
  TokenizedPrompt other = Prompt(0, 128);
  std::iota(other.tokens.begin() + 32, other.tokens.end(), 7000);
  EXPECT_EQ(branch(other), 32u);
}

TEST_F(EventMatchingTest, OnceEventsAreWholeNothingCountsThatWasPresumedBefore) {
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
  events.OnStored(1, std::nullopt, FirstOf(prompt, 2));
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

struct Blocks {
  uint32_t size;  // tokens
  bool window;    // there is a group with a window of two blocks, too
};
class PartialSource : public EventMatchingTest, public testing::WithParamInterface<Blocks> {};

// While events are not all that a replica holds, what they take away is not presumed any more.
TEST_P(PartialSource, WhatItRemovesIsPresumedNoLonger) {  // A1, A2, A13
  const auto [size, window] = GetParam();
  const TokenizedPrompt prompt = Prompt(0, 1280), other = Prompt(5000, 1280);
  const KvStored all = FirstOf(prompt, 1280 / size, size);
  const std::span keys = all.keys;
  with_events.Presume(0, other);
  with_events.Presume(0, prompt);
  events.OnStored(1, std::nullopt, all);
  if (window) {
    KvStored windowed = all;
    windowed.group = 1;
    windowed.window_tokens = 2 * size;
    for (EngineKey& key : windowed.keys) key = EngineKey{uint64_t(key) + 1000};
    events.OnStored(1, std::nullopt, windowed);
    Remove(std::span(windowed.keys).first(keys.size() - 2));
  }
  EXPECT_EQ(HeldAtA(prompt), 1280u) << "blocks before the window are needed by nobody";
  Remove(keys.last(2));
  EXPECT_EQ(HeldAtA(prompt), 1280 - 2 * size);
  Remove(keys.subspan(4, 1));
  EXPECT_EQ(HeldAtA(prompt), 4 * size);
  Remove(keys.first(keys.size() - 2));
  EXPECT_EQ(HeldAtA(prompt), 0u);
  EXPECT_EQ(HeldAtA(other), 1280u) << "of which nothing was said";
  const auto again = with_events.Presume(0, prompt);
  EXPECT_EQ(HeldAtA(prompt), 1280u) << "it was sent there once more";
  with_events.Settle(again, 0);
  EXPECT_EQ(HeldAtA(other), 1280u) << "nothing of it had been promised";
  events.OnStored(1, std::nullopt, all);
  Remove(keys);
  EXPECT_EQ(HeldAtA(prompt), 0u);
  const auto refused = with_events.Presume(0, prompt);
  EXPECT_EQ(HeldAtA(prompt), 1280u);
  with_events.TakeBack(0, prompt, refused);
  EXPECT_EQ(HeldAtA(prompt), 0u) << "it computed nothing";
  events.OnStored(1, std::nullopt, all);
  EXPECT_EQ(HeldAtA(prompt), 1280u) << "or stored";
}

INSTANTIATE_TEST_SUITE_P(, PartialSource,
                         testing::Values(Blocks{16, false}, Blocks{16, true}, Blocks{32, false},
                                         Blocks{32, true}, Blocks{64, false}, Blocks{64, true},
                                         Blocks{128, false}, Blocks{128, true}),
                         [](const auto& p) {
                           return std::to_string(p.param.size) +
                                  (p.param.window ? "TokensAndAWindow" : "Tokens");
                         });

}  // namespace
}  // namespace ember::router
