// What a replica that publishes events is matched by.
#include "tests/unit/router/matcher_fixture.h"

namespace ember::router {
namespace {

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

TEST_F(PrefixMatcherTest, AMatchThatEventsToldOfBranchesToo) {
  MetricsRegistry registry;
  EventMetrics metrics(registry);
  EventFeed events(index, random, metrics);
  PrefixMatcher with_events(replicas, index, random, &events);
  const auto branch = [&](const TokenizedPrompt& prompt) {
    std::vector<Candidate> candidates{{.replica = &replicas.at(0).view, .match = {}, .number = 0}};
    PolicyInput in;
    with_events.Match(prompt, {}, &candidates, &in);
    return in.branch_tokens;
  };
  events.AddSource(1, {.id = "a", .model = "", .holders = {replicas.at(0).holder}}, 0);
  KvStored stored{.block_size = 16, .keys = {EngineKey{1}, EngineKey{2}, EngineKey{3}}};
  const TokenizedPrompt prompt = Prompt(0, 128);
  stored.tokens.assign(prompt.tokens.begin(), prompt.tokens.begin() + 48);
  events.OnStored(1, std::nullopt, stored);
  events.OnTrusted(1);
  EXPECT_EQ(branch(prompt), 0u);
  TokenizedPrompt other = Prompt(0, 128);
  std::iota(other.tokens.begin() + 32, other.tokens.end(), 7000);
  EXPECT_EQ(branch(other), 32u);
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
