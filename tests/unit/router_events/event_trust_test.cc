// When a source is whole (A17): what it stores after blocks that nobody knows is missing, for as
// long as it is held.
#include <gtest/gtest.h>

#include "tests/unit/router_events/engine_model.h"
#include "tests/unit/router_events/event_feed_fixture.h"

namespace ember::router {
namespace {

class EventTrust : public EventFeedFixture {
 protected:
  static constexpr EventSourceId kSource = 1;
  static constexpr uint32_t kBlock = 4;

  EventTrust() {
    feed_.AddSource(kSource, {.id = "r", .model = "m", .holders = {holder_}}, 0);
    feed_.OnTrusted(kSource);
    feed_.OnConnection(kSource, true);
    TellStored(1, 0, 2);
  }
  EngineModel::Tokens Blocks(int prompt, size_t from, size_t to) const {
    const auto all = PromptOf(prompt, to * kBlock);
    return {all.begin() + static_cast<ptrdiff_t>(from * kBlock), all.end()};
  }
  // The prompt's blocks, numbered from 0.
  void TellStored(int prompt, size_t from, size_t to, const EngineModel& engine) {
    const auto hashes = engine.HashesOf(PromptOf(prompt, to * kBlock));
    std::optional<uint64_t> parent;
    if (from > 0) parent = hashes[from - 1];
    EventFeedFixture::Tell(
        kSource, engine.Batch({engine.StoredEvent(
                     {hashes.begin() + static_cast<ptrdiff_t>(from), hashes.end()}, parent,
                     Blocks(prompt, from, to))}));
  }
  void TellStored(int prompt, size_t from, size_t to) { TellStored(prompt, from, to, engine_); }
  void TellRemoved(int prompt, size_t from, size_t to) {
    const auto hashes = engine_.HashesOf(PromptOf(prompt, to * kBlock));
    for (size_t i = to; i-- > from;) {
      EventFeedFixture::Tell(kSource, engine_.Batch({engine_.RemovedEvent({hashes[i]})}));
    }
  }
  std::string_view State() const {
    EXPECT_EQ(metrics_.untrusted.value(), feed_.trusted(holder_) ? 0 : 1);
    return feed_.StateOf(holder_);
  }
  uint64_t Device(int number) {
    TokenizedPrompt prompt;
    prompt.model = "m";
    prompt.tokens = PromptOf(number, 10 * kBlock);
    const auto found = feed_.Match(prompt, EventFeed::Holders().set());
    return found.empty() ? 0 : found[0].device_tokens;
  }
  const EngineModel engine_{{.block_size = kBlock}};
  const HolderId holder_ = index_.AddHolder(HolderKind::kReplica);
};

TEST_F(EventTrust, ASourceWhoseBlocksContinueUnknownOnesIsNotWholeWhileItHoldsThem) {
  EXPECT_EQ(State(), "whole");
  TellStored(2, 1, 3);
  EXPECT_EQ(State(), "partial");
  TellStored(2, 3, 4);
  EXPECT_EQ(metrics_.orphans.value(), 3u) << "what continues them is unknown, too";
  EXPECT_EQ(Device(2), 0u);
  EXPECT_EQ(Device(1), 8u);
  TellRemoved(2, 1, 4);
  EXPECT_EQ(State(), "partial") << "it has the first block still";
  TellRemoved(2, 0, 1);
  EXPECT_EQ(State(), "whole");
}

TEST_F(EventTrust, WhatIsToldFromItsBeginningIsKnownAgain) {
  TellStored(2, 1, 3);
  TellStored(2, 0, 1);
  EXPECT_EQ(State(), "partial");
  TellStored(2, 1, 3);
  EXPECT_EQ(State(), "whole");
  EXPECT_EQ(Device(2), 12u);
}

TEST_F(EventTrust, NothingIsUnknownOfAnEmptyCacheOrAfterAWholeReplay) {
  TellStored(2, 1, 2);
  EventFeedFixture::Tell(kSource, engine_.Batch({engine_.ClearedEvent()}));
  TellStored(1, 0, 2);
  EXPECT_EQ(State(), "whole");
  TellStored(2, 1, 2);
  feed_.OnLost(kSource, UnavailableError("the publisher began anew"));
  TellStored(1, 0, 2);
  EXPECT_EQ(State(), "partial");
  feed_.OnTrusted(kSource);
  EXPECT_EQ(State(), "whole");
}

TEST_F(EventTrust, OneRanksEmptyCacheSaysNothingOfAnothers) {
  const std::vector<HolderId> holders{index_.AddHolder(HolderKind::kReplica),
                                      index_.AddHolder(HolderKind::kReplica)};
  feed_.AddSource(2, {.id = "r", .model = "m", .has_ranks = true, .holders = holders}, 0);
  EngineModel ranks[] = {EngineModel({.block_size = kBlock, .rank = 0}),
                         EngineModel({.block_size = kBlock, .rank = 1})};
  for (EngineModel& rank : ranks) EventFeedFixture::Tell(2, rank.Store(PromptOf(1, 8)));
  EventFeedFixture::Tell(2, ranks[0].Clear());
  for (EngineModel& rank : ranks) EventFeedFixture::Tell(2, rank.Store(PromptOf(2, 8)));
  EXPECT_FALSE(feed_.trusted(holders[0]));
  EXPECT_FALSE(feed_.trusted(holders[1]));
}

// What a source never told does not come back with blocks that it has no longer.
TEST_F(EventTrust, ASourceThatWasMissedStaysSo) {
  feed_.OnLost(kSource, UnavailableError("gap"));
  TellStored(1, 0, 2);
  TellStored(2, 1, 2);
  TellRemoved(2, 0, 2);
  EXPECT_EQ(State(), "partial");
}

// What is presumed of a source that is not whole ends where it told last that a block is gone.
TEST_F(EventTrust, WhatItsDeviceHasLostIsPresumedNoLonger) {
  feed_.OnLost(kSource, UnavailableError("gap"));
  TokenizedPrompt prompt;
  prompt.model = "m";
  prompt.tokens = PromptOf(1, 10 * kBlock);
  const auto left = [&] { return feed_.LeftOf(holder_, prompt, 10 * kBlock) / kBlock; };
  const EngineModel host({.block_size = kBlock, .medium = "CPU"});
  TellStored(1, 0, 10);
  TellStored(1, 0, 10, host);
  const auto hashes = host.HashesOf(prompt.tokens);
  EventFeedFixture::Tell(kSource, host.Batch({host.RemovedEvent({hashes[3]})}));
  EXPECT_EQ(left(), 10u) << "it is on the device";
  TellRemoved(1, 4, 6);
  EXPECT_EQ(left(), 4u);
  TellStored(1, 4, 6);
  EXPECT_EQ(left(), 10u);
  TellStored(1, 0, 10);  // it may have each twice
  TellRemoved(1, 4, 6);
  EXPECT_EQ(left(), 4u);
  TellStored(1, 10, 11);
  EXPECT_EQ(left(), 10u) << "what it goes on after is there";
  TellRemoved(1, 4, 6);
  EventFeedFixture::Tell(kSource, engine_.Batch({engine_.ClearedEvent()}));
  EXPECT_EQ(left(), 10u) << "of what it is sent from now on it has said nothing";
}

// What was removed of one that may be there twice is there where the device goes on after it.
TEST_F(EventTrust, OnlyTheDeviceTellsThatAnotherCopyIsThere) {
  const EngineModel host({.block_size = kBlock, .medium = "CPU"});
  for (int i = 0; i < 2; ++i) TellStored(1, 0, 6);
  TellStored(1, 0, 6, host);
  TellRemoved(1, 5, 6);
  TellStored(1, 6, 7, host);
  EXPECT_EQ(Device(1), 5 * kBlock) << "a slower tier has its own";
  TellStored(1, 6, 7);
  EXPECT_EQ(Device(1), 7 * kBlock) << "of a block that the index knows by the slower tier, too";
}

TEST_F(EventTrust, SlowerTiersOutliveTheDevicesBlocks) {
  TellStored(2, 1, 2, EngineModel({.block_size = kBlock, .medium = "CPU"}));
  EXPECT_EQ(State(), "whole");
}

// A window's block goes on after one that need not be held, and of which nobody tells.
TEST_F(EventTrust, OfWindowsTheBlocksThemselvesAreWaitedFor) {
  const EngineModel window({.block_size = kBlock, .group = 1, .window = 2 * kBlock});
  TellStored(2, 5, 6, window);
  EXPECT_EQ(State(), "partial");
  const auto hashes = window.HashesOf(PromptOf(2, 6 * kBlock));
  EventFeedFixture::Tell(kSource, window.Batch({window.RemovedEvent({hashes[5]})}));
  EXPECT_EQ(State(), "whole");
}

TEST_F(EventTrust, MoreUnknownOnesThanAreRememberedAreUnknownUntilTheCacheIsEmpty) {
  constexpr int kChains = 400;
  for (int i = 10; i < 10 + kChains; ++i) TellStored(i, 1, 60);
  for (int i = 10; i < 10 + kChains; ++i) TellRemoved(i, 0, 60);
  EXPECT_EQ(State(), "partial");
  EventFeedFixture::Tell(kSource, engine_.Batch({engine_.ClearedEvent()}));
  TellStored(1, 0, 2);
  EXPECT_EQ(State(), "whole");
}

// An index that is full forgets ends of chains that the engine goes on with.
TEST_F(EventTrust, WhatTheIndexForgotIsMissingUntilItIsGone) {
  PrefixIndex small(PrefixIndexOptions{.max_bytes = 1 << 20});
  MetricsRegistry registry;
  EventMetrics metrics(registry);
  EventFeed feed(small, random_, metrics);
  const HolderId holder = small.AddHolder(HolderKind::kReplica);
  feed.AddSource(kSource, {.id = "r", .model = "m", .holders = {holder}}, 0);
  feed.OnTrusted(kSource);
  EngineModel engine({.block_size = kBlock});
  const auto tell = [&](const std::string& payload) {
    const auto batch = DecodeKvEventBatch(AsBytes(payload), fold_);
    for (const KvEvent& event : batch->events) TellEvent(feed, kSource, batch->rank, event);
  };
  constexpr int kPrompts = 2000;
  for (int i = 0; i < kPrompts; ++i) tell(engine.Store(PromptOf(i, 20 * kBlock)));
  ASSERT_GT(small.evictions(), 0u);
  for (int i = 0; i < 20; ++i) tell(engine.Store(PromptOf(i, 30 * kBlock)));
  EXPECT_FALSE(feed.trusted(holder));
  for (int i = 0; i < 20; ++i) tell(engine.Remove(PromptOf(i, 30 * kBlock), 19));
  EXPECT_FALSE(feed.trusted(holder)) << "more was forgotten than those that were gone on from";
  tell(engine.Clear());
  tell(engine.Store(PromptOf(1, 2 * kBlock)));
  EXPECT_TRUE(feed.trusted(holder));
}

TEST_F(EventTrust, WhatTheIndexDidNotTakeInIsMissingUntilItIsGone) {
  PrefixIndex small(PrefixIndexOptions{.max_bytes = 1 << 20});
  MetricsRegistry registry;
  EventMetrics metrics(registry);
  EventFeed feed(small, random_, metrics);
  const HolderId holder = small.AddHolder(HolderKind::kReplica);
  feed.AddSource(kSource, {.id = "r", .model = "m", .holders = {holder}}, 0);
  feed.OnTrusted(kSource);
  // A chain that is larger than all memory.
  constexpr size_t kEvent = 100;
  const auto all = PromptOf(1, 50'000 * kBlock);
  const std::vector<uint64_t> hashes = engine_.HashesOf(all);
  const auto at = [](const auto& list, size_t i) {
    return list.begin() + static_cast<ptrdiff_t>(i);
  };
  const auto tell = [&](const std::string& event) {
    const auto batch = DecodeKvEventBatch(AsBytes(engine_.Batch({event})), fold_);
    for (const KvEvent& e : batch->events) TellEvent(feed, kSource, batch->rank, e);
  };
  size_t from = 0;
  for (; small.refusals() == 0 && from + kEvent <= hashes.size(); from += kEvent) {
    EXPECT_EQ(feed.trusted(holder), from > 0);
    std::optional<uint64_t> parent;
    if (from > 0) parent = hashes[from - 1];
    tell(engine_.StoredEvent({at(hashes, from), at(hashes, from + kEvent)}, parent,
                             {at(all, from * kBlock), at(all, (from + kEvent) * kBlock)}));
  }
  ASSERT_GT(small.refusals(), 0u);
  EXPECT_FALSE(feed.trusted(holder));
  tell(engine_.RemovedEvent({at(hashes, from - kEvent), at(hashes, from)}));
  EXPECT_TRUE(feed.trusted(holder));
}

// A source that spoke for another's rank forgets it with that source.
TEST_F(EventTrust, ARankOfASourceThatWentIsNobodys) {
  const std::vector<HolderId> holders{index_.AddHolder(HolderKind::kReplica),
                                      index_.AddHolder(HolderKind::kReplica)};
  const EventReplica replica{.id = "r", .model = "m", .has_ranks = true, .holders = holders};
  feed_.AddSource(2, replica, 0);
  feed_.AddSource(3, replica, 1);
  EngineModel other({.block_size = kBlock, .rank = 1});
  EventFeedFixture::Tell(2, other.Store(PromptOf(1, 8)));
  EventFeedFixture::Tell(3, other.Store(PromptOf(2, 8)));
  feed_.RemoveSource(3);
  feed_.OnLost(2, UnavailableError("gap"));
  EventFeedFixture::Tell(2, other.Store(PromptOf(3, 8)));
  EXPECT_EQ(feed_.StateOf(holders[1]), "unreachable");
}

}  // namespace
}  // namespace ember::router
