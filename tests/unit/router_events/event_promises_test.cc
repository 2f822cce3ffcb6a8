// What events promise and replies tell (A8), and when a source is whole (A17).
#include <gtest/gtest.h>

#include "tests/unit/router_events/engine_model.h"
#include "tests/unit/router_events/event_feed_fixture.h"

namespace ember::router {
namespace {

class EventPromises : public EventFeedFixture {
 protected:
  static constexpr EventSourceId kSource = 1;
  static constexpr uint32_t kBlock = 4;

  EventPromises() {
    holder_ = index_.AddHolder(HolderKind::kReplica);
    feed_.AddSource(kSource, {.id = "r", .model = "m", .holders = {holder_}}, 0);
    feed_.OnTrusted(kSource);
  }
  void Tell(const std::string& payload) { EventFeedFixture::Tell(kSource, payload); }
  static TokenizedPrompt Prompt(int seed, uint32_t tokens = 8 * kBlock,
                                const std::string& adapter = "") {
    return {.token_count = tokens,
            .model = "m",
            .adapter = adapter,
            .tokens = PromptOf(seed, static_cast<int>(tokens))};
  }
  uint64_t Device(const TokenizedPrompt& prompt) {
    const auto found = feed_.Match(prompt, EventFeed::Holders().set());
    return found.empty() ? 0 : found[0].device_tokens;
  }
  void Reply(const TokenizedPrompt& prompt, uint64_t cached) {
    feed_.OnCachedTokens(feed_.MakePromise(holder_, prompt), cached);
  }
  // Stores it and forgets it silently.
  void Store(int seed, uint32_t tokens = 8 * kBlock) {
    Tell(engine_.Store(PromptOf(seed, static_cast<int>(tokens))));
  }
  // It is computed, though it was promised, and is stored again.
  void Recompute(int seed) {
    const TokenizedPrompt prompt = Prompt(seed);
    const EventFeed::Promise promise = feed_.MakePromise(holder_, prompt);
    Tell(engine_.Batch({engine_.StoredEvent(engine_.HashesOf(prompt.tokens), {}, prompt.tokens)}));
    feed_.OnCachedTokens(promise, 0);
  }

  EngineModel engine_{{.block_size = kBlock}};
  HolderId holder_ = kNoHolder;
};

// An engine that sleeps empties its cache without a word.
TEST_F(EventPromises, RepliesThatContradictTakeTheTrust) {
  Store(3);
  Store(1);
  const TokenizedPrompt prompt = Prompt(1);
  for (int i = 0; i < 20; ++i) {
    Reply(prompt, 0);
    Reply(Prompt(2), 0);  // nothing was promised
    Reply(Prompt(3), 3 * kBlock);
  }
  EXPECT_EQ(Device(prompt), 32u) << "single ones are evictions";
  const std::vector<EventFeed::Promise> burst(10, feed_.MakePromise(holder_, prompt));
  for (const EventFeed::Promise& promise : burst) feed_.OnCachedTokens(promise, 0);
  EXPECT_EQ(Device(prompt), 32u) << "requests of one moment are one witness";
  for (int i = 0; i < 3; ++i) Reply(prompt, 0);
  EXPECT_EQ(Device(prompt), 0u);
  EXPECT_FALSE(feed_.trusted(holder_));
  EXPECT_EQ(metrics_.untrusted.value(), 1);
  Tell(engine_.Clear());
  EXPECT_TRUE(feed_.trusted(holder_));
}

TEST_F(EventPromises, AnEmptiedCacheIsFoundOutByShortPromptsToo) {
  for (const uint32_t blocks : {2u, 3u, 5u}) {
    for (int i = 0; i < 5; ++i) Store(static_cast<int>(10 * blocks) + i, blocks * kBlock);
    const auto prompt = [&](int i, uint32_t more) {
      TokenizedPrompt p = Prompt(static_cast<int>(10 * blocks) + i, blocks * kBlock);
      p.token_count += more;
      p.tokens.resize(p.token_count, 7);
      return p;
    };
    for (int i = 0; i < 20; ++i) Reply(prompt(i % 5, 1), (blocks - 1) * kBlock);
    EXPECT_EQ(Device(prompt(0, 1)), blocks * kBlock) << "EAGLE computes the last one that matches";
    for (int i = 0; i < 20 && blocks == 2; ++i) Reply(prompt(i % 5, 0), 0);
    EXPECT_EQ(Device(prompt(0, 1)), blocks * kBlock) << "and every engine the last token's";
    for (int i = 0; i < 4; ++i) Reply(prompt(i, 1), 0);
    EXPECT_EQ(Device(prompt(4, 1)), 0u) << blocks;
    Tell(engine_.Clear());
  }
  Store(1, kBlock);
  for (int i = 0; i < 20; ++i) Reply(Prompt(1, kBlock + 1), 0);
  EXPECT_EQ(Device(Prompt(1, kBlock + 1)), kBlock) << "one block may be the last that matches";
}

// What is known of a source that is not whole is to be true as well.
TEST_F(EventPromises, RepliesContradictASourceThatIsNotWhole) {
  feed_.OnLost(kSource, UnavailableError("gap"));
  Store(1);
  for (int i = 0; i < 4; ++i) Reply(Prompt(1), 0);
  EXPECT_EQ(Device(Prompt(1)), 0u);
}

TEST_F(EventPromises, WhatEnginesComputeAnywayIsNoContradiction) {
  Store(1, kBlock);
  Store(2, 2 * kBlock);
  Store(3);
  TokenizedPrompt logprobs = Prompt(3);
  logprobs.prompt_logprobs = true;
  TokenizedPrompt several = Prompt(3);
  several.several = true;
  TokenizedPrompt doubtful = Prompt(3);
  doubtful.doubtful = true;
  for (int i = 0; i < 20; ++i) {
    Reply(Prompt(1, kBlock), 0);      // the last token's block, though it is there
    Reply(Prompt(2, 2 * kBlock), 0);  // and the last one that matches, with EAGLE
    Reply(logprobs, 0);
    Reply(several, 0);   // the last prompt's count
    Reply(doubtful, 0);  // another prompt, maybe
  }
  EXPECT_TRUE(feed_.trusted(holder_));
  EXPECT_EQ(metrics_.contradictions.value(), 0u);
  Store(4, 3 * kBlock);
  for (int i = 0; i < 4; ++i) Reply(Prompt(4, 3 * kBlock), 0);
  EXPECT_FALSE(feed_.trusted(holder_)) << "one more is enough";
}

// A reply about what was stored since says nothing of what is missing.
TEST_F(EventPromises, AnEmptiedCacheIsFoundOutThoughItFillsAgain) {
  Store(20);
  Tell(engine_.Remove(PromptOf(20, 32)));  // it evicted once, long ago
  Store(9);
  for (int seed = 0; seed < 8; ++seed) Store(seed);
  for (int seed = 0; seed < 4; ++seed) {
    EXPECT_TRUE(feed_.trusted(holder_));
    Reply(Prompt(9), 32);  // its last good ones
    Recompute(seed);
    Reply(Prompt(seed), 28);
  }
  Reply(Prompt(9), 32);
  EXPECT_TRUE(feed_.trusted(holder_)) << "older blocks were there all the time";
  for (int seed = 4; seed < 8; ++seed) {
    EXPECT_TRUE(feed_.trusted(holder_));
    if (seed % 2 == 0) {
      Recompute(seed);
    } else {
      Reply(Prompt(seed), 0);  // and its event does not come, or not yet
    }
    for (int again = 4; again <= seed; ++again) Reply(Prompt(again), 28);
  }
  EXPECT_FALSE(feed_.trusted(holder_));
}

// One that is full evicts what is oldest, so that what is younger is there.
TEST_F(EventPromises, AnEngineThatEvictsIsNotEmpty) {
  for (int seed = 0; seed < 8; ++seed) Store(seed);
  for (int seed = 0; seed < 8; ++seed) {
    Recompute(seed);
    Tell(engine_.Batch({engine_.RemovedEvent({engine_.HashesOf(PromptOf(7, 32))[7 - seed]})}));
    Reply(Prompt(seed), 28);
  }
  EXPECT_TRUE(feed_.trusted(holder_));
}

// B5: a new adapter under an old name is found out by its replies.
TEST_F(EventPromises, AnAdapterThatWasReplacedLosesTrustByItsReplies) {
  EngineModel engine({.block_size = kBlock, .adapter = "law"});
  Tell(engine.Store(PromptOf(1, 32)));
  const TokenizedPrompt prompt = Prompt(1, 32, "law");
  EXPECT_EQ(Device(prompt), 32u);
  for (int i = 0; i < 4; ++i) Reply(prompt, 0);
  EXPECT_EQ(Device(prompt), 0u);
}

}  // namespace
}  // namespace ember::router
