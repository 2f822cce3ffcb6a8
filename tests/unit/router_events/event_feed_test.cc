#include "router/events/event_feed.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/router_events/engine_model.h"
#include "tests/unit/router_events/event_feed_fixture.h"

namespace ember::router {
namespace {

using Tokens = EngineModel::Tokens;

class EventFeedTest : public EventFeedFixture {
 protected:
  static constexpr EventSourceId kSource = 1;
  static constexpr EventSourceId kOther = 2;

  // A source of a replica of `ranks` ranks; its holders.
  std::vector<HolderId> Add(EventSourceId source, uint32_t ranks = 1, uint32_t first_rank = 0,
                            const std::string& model = "m") {
    EventReplica replica{
        .id = "r", .model = model, .has_ranks = ranks > 1, .first_rank = first_rank, .holders = {}};
    for (uint32_t i = 0; i < ranks; ++i) {
      replica.holders.push_back(index_.AddHolder(HolderKind::kReplica));
    }
    feed_.AddSource(source, replica, first_rank);
    return replica.holders;
  }
  GroupMatch Match(HolderId holder, const Tokens& tokens, const std::string& adapter = "",
                   const std::string& salt = "") {
    TokenizedPrompt prompt;
    prompt.tokens = tokens;
    prompt.model = "m";
    prompt.adapter = adapter;
    prompt.salt = salt;
    for (const GroupMatch& match : feed_.Match(prompt, EventFeed::Holders().set())) {
      if (match.holder == holder) return match;
    }
    return {.holder = holder};
  }
  uint64_t Device(HolderId holder, const Tokens& tokens, const std::string& adapter = "",
                  const std::string& salt = "") {
    return Match(holder, tokens, adapter, salt).device_tokens;
  }
};

TEST_F(EventFeedTest, WhatIsStoredIsFoundAndWhatIsRemovedIsNot) {
  for (const EventShape shape : {EventShape::kArrays, EventShape::kMaps, EventShape::kAllMaps}) {
    for (const HashForm form :
         {HashForm::kUnsigned, HashForm::kSigned, HashForm::kBytes32, HashForm::kBytes8}) {
      const EventSourceId source = 10 + 10 * static_cast<int>(shape) + static_cast<int>(form);
      const HolderId holder = Add(source).front();
      EngineModel engine({.shape = shape, .form = form});
      const Tokens prompt = PromptOf(1, 16);
      Tell(source, engine.Store(Tokens(prompt.begin(), prompt.begin() + 8)));
      EXPECT_EQ(Device(holder, prompt), 8u);
      Tell(source, engine.Store(prompt));  // goes on after a parent that was told
      EXPECT_EQ(Device(holder, prompt), 16u);
      EXPECT_EQ(Device(holder, PromptOf(2, 16)), 0u);
      Tell(source, engine.Remove(prompt, 2));
      EXPECT_EQ(Device(holder, prompt), 8u);
      Tell(source, engine.Store(prompt));
      Tell(source, engine.Clear());
      EXPECT_EQ(Device(holder, prompt), 0u);
      feed_.RemoveSource(source);
    }
  }
}

// vLLM tells some blocks twice without a removal in between.
TEST_F(EventFeedTest, EventsAreIdempotent) {
  const HolderId holder = Add(kSource).front();
  EngineModel engine;
  const Tokens prompt = PromptOf(1, 8);
  const std::string stored =
      engine.Batch({engine.StoredEvent(engine.HashesOf(prompt), {}, prompt)});
  const std::string removed = engine.Batch({engine.RemovedEvent(engine.HashesOf(prompt))});
  Tell(kSource, stored);
  Tell(kSource, stored);
  EXPECT_EQ(Device(holder, prompt), 8u);
  Tell(kSource, removed);
  Tell(kSource, removed);
  EXPECT_EQ(Device(holder, prompt), 0u);
}

TEST_F(EventFeedTest, BlocksOfAnUnknownParentAreNoPrefix) {
  const HolderId holder = Add(kSource).front();
  EngineModel engine;
  const Tokens prompt = PromptOf(1, 8);
  const auto hashes = engine.HashesOf(prompt);
  Tell(kSource, engine.Batch({engine.StoredEvent({hashes[1]}, hashes[0], PromptOf(9, 4))}));
  EXPECT_EQ(metrics_.orphans.value(), 1u);
  EXPECT_EQ(index_.blocks_held(holder), 0u);
}

// A7, A8: gone at once, and what comes late cannot bring them back.
TEST_F(EventFeedTest, LostAndRemovedSourcesLoseEverything) {
  const HolderId holder = Add(kSource).front();
  EngineModel engine;
  const Tokens prompt = PromptOf(1, 8);
  feed_.OnTrusted(kSource);
  EXPECT_EQ(metrics_.untrusted.value(), 0);
  const std::string stored = engine.Store(prompt);
  Tell(kSource, stored);
  feed_.OnLost(kSource, UnavailableError("gap"));
  EXPECT_EQ(Device(holder, prompt), 0u);
  EXPECT_FALSE(feed_.trusted(holder));
  EXPECT_EQ(metrics_.untrusted.value(), 1);
  // What is told from now on is true.
  Tell(kSource, stored);
  EXPECT_EQ(Device(holder, prompt), 8u);
  feed_.RemoveSource(kSource);
  EXPECT_EQ(metrics_.untrusted.value(), 0);
  index_.ClearHolder(holder);
  Tell(kSource, stored);  // was under way
  EXPECT_EQ(index_.blocks_held(holder), 0u);
}

TEST_F(EventFeedTest, ClearedIsEmptyAndTrusted) {
  const HolderId holder = Add(kSource).front();
  EngineModel engine;
  Tell(kSource, engine.Store(PromptOf(1, 8)));
  Tell(kSource, engine.Clear());
  EXPECT_EQ(index_.blocks_held(holder), 0u);
  EXPECT_TRUE(feed_.trusted(holder));
}

// A13: two groups for the same tokens.
TEST_F(EventFeedTest, AHybridModelNeedsEveryGroup) {
  const HolderId holder = Add(kSource).front();
  const Tokens prompt = PromptOf(1, 16);
  EngineModel full({.group = 0});
  EngineModel window({.group = 1, .window = 8});
  Tell(kSource, full.Store(prompt));
  Tell(kSource, window.Store(prompt));
  EXPECT_EQ(Device(holder, prompt), 16u);
  // The window's first half has slid out: only the last 8 tokens are needed.
  Tell(kSource, window.Batch({window.RemovedEvent({window.HashesOf(prompt)[0]})}));
  EXPECT_EQ(Device(holder, prompt), 16u);
  Tell(kSource, window.Remove(prompt));
  EXPECT_EQ(Device(holder, prompt), 0u) << "the same hashes in the other group stay";
  Tell(kSource, window.Store(prompt));
  EXPECT_EQ(Device(holder, prompt), 16u);
  Tell(kSource, full.Remove(prompt, 3));
  EXPECT_EQ(Device(holder, prompt), 12u);
}

// A13: tiers.
TEST_F(EventFeedTest, ASlowerTierCountsApartAndOutlivesTheDevice) {
  const HolderId holder = Add(kSource).front();
  const Tokens prompt = PromptOf(1, 16);
  EngineModel device;
  EngineModel host({.medium = "CPU"});
  Tell(kSource, device.Store(prompt));
  // vLLM's offloading names blocks without their tokens.
  const auto hashes = host.HashesOf(prompt);
  Tell(kSource, host.Batch({host.StoredEvent(hashes, {}, {})}));
  Tell(kSource, device.Remove(prompt, 1));
  EXPECT_EQ(Match(holder, prompt).device_tokens, 4u);
  EXPECT_EQ(Match(holder, prompt).any_tier_tokens, 16u);
  Tell(kSource, host.Batch({host.RemovedEvent(hashes)}));
  EXPECT_EQ(Match(holder, prompt).device_tokens, 4u);
  EXPECT_EQ(Match(holder, prompt).any_tier_tokens, 4u);
}

TEST_F(EventFeedTest, ASlowerTierMayCutOtherwise) {
  const HolderId holder = Add(kSource).front();
  const Tokens prompt = PromptOf(1, 32);
  EngineModel device;
  EngineModel host({.block_size = 16, .medium = "cpu"});
  Tell(kSource, device.Store(Tokens(prompt.begin(), prompt.begin() + 8)));
  Tell(kSource, host.Store(prompt));
  EXPECT_EQ(Match(holder, prompt).device_tokens, 8u);
  EXPECT_EQ(Match(holder, prompt).any_tier_tokens, 32u);
  EXPECT_EQ(metrics_.block_size_changes.value(), 0u);
}

// A14, B3, B4: an adapter's blocks are nobody else's.
TEST_F(EventFeedTest, AdaptersAndTheBaseShareNothing) {
  const HolderId holder = Add(kSource).front();
  const Tokens prompt = PromptOf(1, 8);
  EngineModel engine({.adapter = "law"});
  Tell(kSource, engine.Store(prompt));
  EXPECT_EQ(Device(holder, prompt, "law"), 8u);
  EXPECT_EQ(Device(holder, prompt), 0u);
  EXPECT_EQ(Device(holder, prompt, "medicine"), 0u);
}

// A14: engines serve an adapter as a model, which events tell where nobody else does.
TEST_F(EventFeedTest, AModelThatEventsTellOfAsAnAdapterIsOne) {
  const HolderId holder = Add(kSource).front();  // of the model "m"
  const Tokens tokens = PromptOf(1, 8);
  Tell(kSource, EngineModel({.adapter = "law"}).Store(tokens));
  const auto tokens_for = [&](const std::string& model, const std::string& adapter = "",
                              const std::string& lora_path = "") -> uint64_t {
    TokenizedPrompt prompt;
    prompt.adapter = adapter;
    prompt.lora_path = lora_path;
    prompt.tokens = tokens;
    prompt.model = model;
    const auto found = feed_.Match(prompt, EventFeed::Holders().set());
    return found.empty() ? 0 : found[0].device_tokens;
  };
  EXPECT_EQ(tokens_for("law"), 8u);
  EXPECT_EQ(tokens_for("m:law"), 8u) << "SGLang's form";
  EXPECT_EQ(tokens_for("m", "", "law"), 8u);
  EXPECT_EQ(tokens_for("m"), 0u);
  EXPECT_EQ(tokens_for("medicine"), 0u);
  Tell(kSource, EngineModel().Store(tokens));
  EXPECT_EQ(tokens_for("m"), 8u);
  EXPECT_EQ(tokens_for("medicine", "medicine"), 0u) << "known to be one, and not told of yet";
  EXPECT_EQ(tokens_for("m:medicine"), 0u);
  EXPECT_EQ(tokens_for("m", "", "medicine"), 0u);
  // Known to be none, as SGLang takes a plain name.
  Tell(kSource, EngineModel({.adapter = "law"}).Store(PromptOf(2, 8)));
  for (const int number : {1, 2}) {
    TokenizedPrompt base;
    base.tokens = PromptOf(number, 8);
    base.model = "law";
    base.SetAdapter("");
    EXPECT_EQ(feed_.Match(base, EventFeed::Holders().set()).size(), number == 1 ? 1u : 0u);
  }
  EXPECT_TRUE(feed_.ChainsOf(holder, TokenizedPrompt()).empty());
}

TEST_F(EventFeedTest, AnAdaptersNameIsAnotherModelsOwn) {
  const Tokens tokens = PromptOf(1, 8);
  Add(kSource);
  const HolderId other = Add(kOther, 1, 0, "law").front();
  Tell(kSource, EngineModel({.adapter = "law"}).Store(PromptOf(2, 8)));
  Tell(kOther, EngineModel().Store(tokens));
  TokenizedPrompt prompt;
  prompt.tokens = tokens;
  prompt.model = "law";
  const auto found = feed_.Match(prompt, EventFeed::Holders().set(other));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].device_tokens, 8u);
}

// B3: salts; and images never look like text.
TEST_F(EventFeedTest, SaltsAndImagesShareNothingWithPlainText) {
  const HolderId holder = Add(kSource).front();
  const Tokens prompt = PromptOf(1, 8);
  const auto stored = [&](const std::string& extras, uint64_t first_hash) {
    MsgpackWriter event;
    event.Array(9).Text("BlockStored").Array(2).Unsigned(first_hash).Unsigned(first_hash + 1).Nil();
    event.Array(8);
    for (const TokenId t : prompt) event.Unsigned(static_cast<uint64_t>(t));
    event.Unsigned(4).Nil().Text("GPU").Nil().Raw(extras);
    return EngineModel().Batch({event.str()});
  };
  Tell(kSource, stored(MsgpackWriter().Array(2).Array(1).Text("alice").Nil().str(), 10));
  EXPECT_EQ(Device(holder, prompt, "", "alice"), 8u) << "the second block follows the first";
  EXPECT_EQ(Device(holder, prompt), 0u);
  EXPECT_EQ(Device(holder, prompt, "", "bob"), 0u);
  // An image in the second block.
  Tell(
      kSource,
      stored(MsgpackWriter().Array(2).Nil().Array(1).Array(2).Text("image").Unsigned(5).str(), 20));
  EXPECT_EQ(Device(holder, prompt), 4u);
  EXPECT_EQ(Device(holder, prompt, "", "image"), 0u);
}

// A15
TEST_F(EventFeedTest, AnotherBlockSizeStartsAnewAndBothSizesScore) {
  const HolderId first = Add(kSource).front();
  const HolderId second = Add(kOther).front();
  const Tokens prompt = PromptOf(1, 64);
  EngineModel small({.block_size = 16});
  EngineModel large({.block_size = 64});
  Tell(kSource, small.Store(prompt));
  Tell(kOther, small.Store(PromptOf(1, 32)));
  EXPECT_EQ(Device(first, prompt), 64u);
  feed_.OnLost(kSource, UnavailableError("the publisher began anew"));
  testing::internal::CaptureStdout();
  Tell(kSource, large.Store(PromptOf(1, 128)));  // restarted with another configuration
  EXPECT_THAT(testing::internal::GetCapturedStdout(),
              ::testing::HasSubstr("its blocks have 64 tokens now, not 16"))
      << "though something was said of the loss at this very moment";
  Tell(kSource, large.Store(PromptOf(2, 128)));
  EXPECT_EQ(metrics_.block_size_changes.value(), 1u);
  EXPECT_EQ(Device(first, prompt), 64u);
  EXPECT_EQ(index_.blocks_held(first), 4u) << "the old size's blocks are gone";
  Tell(kOther, EngineModel({.block_size = 16}).Store(prompt));
  EXPECT_EQ(Device(second, prompt), 64u);
  EXPECT_EQ(Device(first, PromptOf(1, 48)), 0u);
  EXPECT_EQ(Device(second, PromptOf(1, 48)), 48u);
}

// A15: a publisher that goes on with the old one's numbers is no gap.
TEST_F(EventFeedTest, SeveralSmallerBlocksAreAnotherEngines) {
  const HolderId holder = Add(kSource).front();
  feed_.OnTrusted(kSource);
  EngineModel large({.block_size = 64}), small({.block_size = 32});
  Tell(kSource, large.Store(PromptOf(1, 128)));
  EXPECT_TRUE(feed_.trusted(holder));
  Tell(kSource, small.Store(PromptOf(2, 32)));
  EXPECT_EQ(Device(holder, PromptOf(2, 32)), 0u) << "a part of a prompt's last block";
  EXPECT_EQ(Device(holder, PromptOf(1, 128)), 128u);
  Tell(kSource, small.Store(PromptOf(3, 128)));
  EXPECT_EQ(Device(holder, PromptOf(3, 96)), 96u);
  EXPECT_EQ(Device(holder, PromptOf(1, 128)), 0u) << "that engine is gone";
  EXPECT_FALSE(feed_.trusted(holder)) << "it may have had more before";
  EXPECT_EQ(metrics_.block_size_changes.value(), 1u);
  Tell(kSource, small.Store(PromptOf(4, 32)));
  EXPECT_EQ(Device(holder, PromptOf(4, 32)), 32u);
}

// A15: a group that the engine has no more is not needed for ever.
TEST_F(EventFeedTest, AfterALossTheEngineMayHaveOtherGroups) {
  const HolderId holder = Add(kSource).front();
  const Tokens prompt = PromptOf(1, 16);
  EngineModel full({.group = 0});
  EngineModel window({.group = 1, .window = 8});
  Tell(kSource, full.Store(prompt));
  Tell(kSource, window.Store(prompt));
  EXPECT_EQ(feed_.StateOf(holder), "unreachable");
  feed_.OnConnection(kSource, true);
  EXPECT_EQ(feed_.StateOf(holder), "partial");
  feed_.OnLost(kSource, UnavailableError("the publisher began anew"));
  feed_.OnTrusted(kSource);
  EXPECT_EQ(feed_.StateOf(holder), "silent");
  Tell(kSource, EngineModel().Store(prompt));
  EXPECT_EQ(Device(holder, prompt), 16u);
  EXPECT_EQ(feed_.StateOf(holder), "whole");
}

// A16
TEST_F(EventFeedTest, OnlyRanksThatTheReplicaHasAreBelieved) {
  const std::vector<HolderId> holders = Add(kSource, 2, 4);
  const Tokens prompt = PromptOf(1, 8);
  for (const uint32_t rank : {4u, 5u}) {
    EngineModel engine({.rank = rank});
    Tell(kSource, engine.Store(PromptOf(static_cast<int>(rank), 8)));
    EXPECT_EQ(Device(holders[rank - 4], PromptOf(static_cast<int>(rank), 8)), 8u);
    EXPECT_EQ(Device(holders[5 - rank], PromptOf(static_cast<int>(rank), 8)), 0u);
  }
  for (const uint32_t rank : {0u, 3u, 6u, 4000000000u}) {
    EngineModel engine({.rank = rank});
    Tell(kSource, engine.Store(prompt));
  }
  EXPECT_EQ(metrics_.unknown_ranks.value(), 4u);
  EXPECT_EQ(Device(holders[0], prompt) + Device(holders[1], prompt), 0u);
  // Without a rank it is the endpoint's own. A loss takes all that the source spoke for.
  Tell(kSource, EngineModel().Store(prompt));
  EXPECT_EQ(Device(holders[0], prompt), 8u);
  feed_.OnLost(kSource, UnavailableError("gap"));
  EXPECT_EQ(index_.blocks_held(holders[0]) + index_.blocks_held(holders[1]), 0u);
}

TEST_F(EventFeedTest, AHostilePublisherMakesNoLayoutsWithoutEnd) {
  Add(kSource);
  for (uint32_t group = 0; group < 1000; ++group) {
    EngineModel engine({.group = group});
    Tell(kSource, engine.Store(PromptOf(1, 8)));
  }
  EXPECT_GE(metrics_.unusable.value(), 900u);
  const uint64_t before = metrics_.unusable.value();
  for (uint32_t size = 5; size < 105; ++size) {
    EngineModel engine({.block_size = size, .medium = "CPU", .group = 0});
    Tell(kSource, engine.Store(PromptOf(1, 2 * size)));
  }
  EXPECT_GE(metrics_.unusable.value(), before + 90) << "sizes of slower tiers";
}

}  // namespace
}  // namespace ember::router
