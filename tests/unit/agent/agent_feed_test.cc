#include "client/agent/agent_feed.h"

#include <gtest/gtest.h>

namespace ember::agent {
namespace {

BlockHash Hash(int n) {
  BlockHash out;
  out.bytes[0] = static_cast<std::byte>(n);
  return out;
}

FeedEvent Take(AgentFeed::Watcher& watcher) {
  auto event = watcher.Next(seconds(5));
  EXPECT_TRUE(event.ok() && event->has_value());
  return event.ok() && event->has_value() ? **event : FeedEvent();
}

TEST(AgentFeedTest, ASnapshotThenEveryChangeWithoutGaps) {
  AgentFeed feed;
  feed.SetIdentity(KeySpace{}, "model");
  feed.SetHeld(0, {Hash(1)});
  auto watcher = feed.Watch();
  ASSERT_TRUE(watcher.ok());
  feed.SetHeld(1, {Hash(1), Hash(2)});
  feed.SetReport({.healthy = true});
  const FeedEvent first = Take(**watcher);
  const auto& snapshot = std::get<FeedSnapshot>(first.what);
  ASSERT_EQ(snapshot.held.size(), 1u);
  EXPECT_EQ(snapshot.model, "model");
  const FeedEvent second = Take(**watcher);
  EXPECT_EQ(second.sequence, first.sequence + 1);
  EXPECT_EQ(std::get<FeedHeld>(second.what).blocks.size(), 2u);
  const FeedEvent third = Take(**watcher);
  EXPECT_EQ(third.sequence, first.sequence + 2);
  EXPECT_TRUE(std::get<FeedReport>(third.what).healthy);
}

TEST(AgentFeedTest, NoEventForNoChange) {
  AgentFeed feed;
  feed.SetHeld(0, {});
  feed.SetHeld(0, {Hash(1)});
  auto watcher = feed.Watch();
  (void)Take(**watcher);
  feed.SetHeld(0, {Hash(1)});
  auto event = (*watcher)->Next(milliseconds(1));
  ASSERT_TRUE(event.ok());
  EXPECT_FALSE(event->has_value());
}

TEST(AgentFeedTest, ASlowWatcherIsCutOffAndOthersAreNot) {
  AgentFeed feed;
  auto slow = feed.Watch(), quick = feed.Watch();
  for (size_t i = 0; i < AgentFeed::kMaxBuffered + 1; ++i) {
    feed.SetReport({});
    (void)Take(**quick);
  }
  EXPECT_EQ((*slow)->Next(seconds(1)).status().code(), StatusCode::kUnavailable);
  EXPECT_TRUE((*quick)->Next(seconds(1)).ok());
}

TEST(AgentFeedTest, AnotherIdentityForgetsWhatIsHeld) {
  AgentFeed feed;
  feed.SetHeld(0, {Hash(1)});
  KeySpace space;
  space.id.bytes[0] = std::byte{1};
  auto watcher = feed.Watch();
  (void)Take(**watcher);
  feed.SetIdentity(space, "m");
  EXPECT_TRUE(std::get<FeedSnapshot>(Take(**watcher).what).held.empty());
  EXPECT_EQ(feed.LongestPrefix(std::vector{Hash(1)}), 0u);
}

TEST(AgentFeedTest, TellsTheLongestPrefixOfAnySlot) {
  AgentFeed feed;
  feed.SetHeld(0, {Hash(1), Hash(2), Hash(3)});
  feed.SetHeld(1, {Hash(1), Hash(5)});
  EXPECT_EQ(feed.LongestPrefix(std::vector{Hash(1), Hash(2), Hash(9)}), 2u);
  EXPECT_EQ(feed.LongestPrefix(std::vector{Hash(1), Hash(5), Hash(9)}), 2u);
  EXPECT_EQ(feed.LongestPrefix(std::vector{Hash(2)}), 0u);
}

TEST(AgentFeedTest, ClosingEndsEveryWatcher) {
  AgentFeed feed;
  auto watcher = feed.Watch();
  feed.Close();
  EXPECT_EQ((*watcher)->Next(seconds(5)).status().code(), StatusCode::kUnavailable);
  EXPECT_FALSE(feed.Watch().ok());
}

}  // namespace
}  // namespace ember::agent
