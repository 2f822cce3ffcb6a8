#include "tests/unit/router_events/event_stream_fixture.h"

namespace ember::router {
namespace {

using ::testing::ElementsAre;

class EventStreamWithoutReplay : public EventStreamTest {
 protected:
  EventStreamWithoutReplay() {
    std::destroy_at(&stream_);
    std::construct_at(&stream_, EventStreamOptions{}, sink_, metrics_);
  }
};

TEST_F(EventStreamTest, JoiningTakesAllThatThePublisherCanRepeat) {
  Connect();
  EXPECT_EQ(Asked(), 0);
  Replay(0);
  Replay(1);
  Live(3);  // the subscription starts while the replay runs
  Live(4);
  Replay(2);
  EXPECT_EQ(Asked(), -1) << "nothing is missing, so no end marker is waited for";
  Live(5);
  EXPECT_THAT(Heard(), ElementsAre("0", "1", "2", "3", "4", "trusted", "5"))
      << "whole at the replay's end, not before";
  EXPECT_EQ(metrics_.gaps.value(), 0u);
}

// A17: what was stored before its oldest batch is never told again.
TEST_F(EventStreamTest, APublisherWhoseFirstBatchesAreGoneIsHeardButNotWhole) {
  Connect();
  Replay(5);
  Replay(6);
  Live(8);
  Replay(7);
  Live(9);
  EXPECT_THAT(Heard(), ElementsAre("5", "6", "7", "8", "9"));
  Pass(Duration());
  EXPECT_FALSE(stream_.deadline()) << "no more can be had";
  Live(0, 1000);
  EXPECT_THAT(Heard(), ElementsAre("lost", "trusted", "1000"));
}

TEST_F(EventStreamTest, ASilentPublisherThatSpokeWhileNobodyHeardIsNotWhole) {
  Connect();
  End();
  EXPECT_THAT(Heard(), ElementsAre("trusted"));
  Connect();
  Replay(5);
  End();
  EXPECT_THAT(Heard(), ElementsAre("lost", "5"));
}

TEST_F(EventStreamTest, JoiningASilentPublisherEndsWithItsMarkerOrWithSilence) {
  Connect();
  End();
  EXPECT_EQ(Asked(), -1);
  Live(0);
  EXPECT_THAT(Heard(), ElementsAre("trusted", "0"));

  Connect();  // again: the last batch is looked at
  EXPECT_EQ(Asked(), 0);
  Replay(0);
  Pass(options_.stall);
  EXPECT_EQ(Asked(), -1);
  Live(1);
  EXPECT_THAT(Heard(), ElementsAre("1"));
}

// The answer was given before the first message of the subscription was sent.
TEST_F(EventStreamTest, WhatFallsBetweenReplayAndSubscriptionIsAskedFor) {
  Connect();
  Live(3);
  End();  // from before batch 0
  EXPECT_EQ(Asked(), 0);
  for (const uint64_t n : {0, 1, 2}) Replay(n);
  EXPECT_THAT(Heard(), ElementsAre("0", "1", "2", "3", "trusted"));
  EXPECT_EQ(metrics_.gaps.value(), 0u) << "nothing was lost by a stream that was heard";
}

// A1
TEST_F(EventStreamTest, AGapIsReplayedAndCountedOnce) {
  Follow(2);
  Live(6);
  EXPECT_EQ(Asked(), 3);
  Live(7);
  EXPECT_THAT(Heard(), ElementsAre()) << "nothing is told out of order";
  for (const uint64_t n : {3, 4, 5}) Replay(n);
  EXPECT_EQ(Asked(), -1);
  Replay(6);  // the rest of the answer, read too late
  Live(8);
  EXPECT_THAT(Heard(), ElementsAre("3", "4", "5", "6", "7", "8"));
  EXPECT_EQ(metrics_.gaps.value(), 1u);
}

TEST_F(EventStreamWithoutReplay, AGapDropsEverything) {
  Connect();
  Live(0);
  Live(1);
  Live(3);
  Live(4);
  EXPECT_THAT(Heard(), ElementsAre("trusted", "0", "1", "lost", "3", "4"));
  EXPECT_EQ(metrics_.gaps.value(), 1u);
  // A new connection may be to another process, and there is nothing to compare.
  Connect();
  Live(5);
  EXPECT_THAT(Heard(), ElementsAre("lost", "5"));
}

TEST_F(EventStreamTest, AGapBeyondWhatCanBeRepeatedStartsAnewFromTheOldest) {
  Follow(2);
  Live(20);
  Replay(10);
  for (uint64_t n = 11; n < 20; ++n) Replay(n);
  EXPECT_THAT(Heard(), ElementsAre("lost", "10", "11", "12", "13", "14", "15", "16", "17", "18",
                                   "19", "20"));
}

// A5: every gap costs one replay, and the next number is the publisher's.
TEST_F(EventStreamTest, ThreeGapsBeyondTheBufferAreThreeRecoveries) {
  Follow(2);
  const uint64_t asked_before = metrics_.replays.value();
  for (const uint64_t start : {100, 200, 300}) {
    Live(start);
    Replay(start - 2);
    Replay(start - 1);
    Replay(start);
    End();
    for (uint64_t n = start + 1; n < start + 50; ++n) {
      Live(n);
      Pass(seconds(1));
    }
  }
  EXPECT_EQ(metrics_.replays.value() - asked_before, 3u);
  EXPECT_EQ(metrics_.losses.value(), 3u);
  EXPECT_EQ(Asked(), -1);
}

// The publisher's buffer holds nothing of it.
TEST_F(EventStreamTest, AnEmptyAnswerToAGapDropsEverything) {
  Follow(2);
  Live(5);
  End();
  EXPECT_EQ(Asked(), -1);
  Live(6);
  EXPECT_THAT(Heard(), ElementsAre("lost", "5", "6"));
}

// A3: a replay may stop for a while; after a cut only the rest is asked for.
TEST_F(EventStreamTest, AStalledReplayGoesOnAndACutOneIsAskedForTheRest) {
  Follow(0);
  Live(100);
  for (uint64_t n = 1; n < 50; ++n) Replay(n);
  Pass(seconds(10));
  const auto before = stream_.replay()->number;
  for (uint64_t n = 50; n < 60; ++n) Replay(n);
  EXPECT_EQ(stream_.replay()->number, before);
  stream_.OnReplayBroken(UnavailableError("cut"), now_);
  EXPECT_EQ(Asked(), -1);
  Pass(options_.first_pause);
  EXPECT_EQ(Asked(), 60);
  for (uint64_t n = 60; n < 100; ++n) Replay(n);
  EXPECT_EQ(Asked(), -1);
  std::vector<std::string> all;
  for (uint64_t n = 1; n <= 100; ++n) all.push_back(std::to_string(n));
  EXPECT_EQ(Heard(), all) << "each once";
}

// A publisher whose socket is full drops what is in the middle of its answer.
TEST_F(EventStreamTest, AHoleInAReplayIsAskedForAgain) {
  Follow(0);
  Live(10);
  for (const uint64_t n : {1, 2, 3, 7}) Replay(n);
  EXPECT_EQ(Asked(), 4);
  for (const uint64_t n : {4, 5}) Replay(n);
  End();  // what was dropped was the tail
  EXPECT_EQ(Asked(), 6);
  for (const uint64_t n : {6, 7, 8, 9}) Replay(n);
  EXPECT_THAT(Heard(), ElementsAre("1", "2", "3", "4", "5", "6", "7", "8", "9", "10"));
}

TEST_F(EventStreamTest, ANumberThatGoesBackIsANewPublisher) {
  Follow(20);
  Live(0, 1000);
  Live(1, 1000);
  EXPECT_THAT(Heard(), ElementsAre("lost", "trusted", "1000", "1001"));
  // One that had begun before it was heard is asked for its beginning.
  Live(1, 2000);
  EXPECT_EQ(Asked(), 0);
  Replay(0, 2000);
  EXPECT_THAT(Heard(), ElementsAre("lost", "2000", "2001", "trusted"));
  EXPECT_EQ(metrics_.gaps.value(), 0u);
}

TEST_F(EventStreamTest, AMessageThatComesTwiceIsOneMessage) {
  Follow(3);
  Live(3);
  Live(4);
  EXPECT_THAT(Heard(), ElementsAre("4"));
}

// A7: after a restart the new publisher may be further than the old one was.
TEST_F(EventStreamTest, AfterAReconnectTheLastBatchMustBeTheSame) {
  Follow(5);
  Connect();
  EXPECT_EQ(Asked(), 5);
  Live(9);
  for (const uint64_t n : {5, 6, 7, 8}) Replay(n);
  EXPECT_THAT(Heard(), ElementsAre("6", "7", "8", "9"));
  EXPECT_EQ(metrics_.gaps.value(), 1u) << "what was lost with the connection";

  Connect();
  Live(15, 1000);
  EXPECT_EQ(Asked(), 9);
  Replay(9, 1000);
  EXPECT_EQ(Asked(), 0) << "another process: all of it";
  for (uint64_t n = 12; n < 15; ++n) Replay(n, 1000);
  EXPECT_THAT(Heard(), ElementsAre("lost", "1012", "1013", "1014", "1015"));
}

TEST_F(EventStreamTest, AfterAReconnectAPublisherWithFewerBatchesIsNew) {
  Follow(5);
  Connect();
  End();  // it has no batch 5
  EXPECT_EQ(Asked(), 0);
  Replay(0, 1000);
  End();
  EXPECT_THAT(Heard(), ElementsAre("lost", "1000", "trusted"));

  Connect();
  Live(0, 2000);  // before any answer
  EXPECT_THAT(Heard(), ElementsAre("lost", "trusted", "2000"));
}

// A, then B, then A again.
TEST_F(EventStreamTest, ABatchThatEqualsOneOfAnEarlierPublisherSaysNothingOfThePresentOne) {
  Follow(5);
  Connect();
  Live(20, 1000);
  for (const uint64_t n : {18, 19}) Replay(n, 1000);
  EXPECT_THAT(Heard(), ElementsAre("lost", "1018", "1019", "1020"));
  Connect();
  Replay(3);
  EXPECT_THAT(Heard(), ElementsAre("lost"));
  EXPECT_EQ(Asked(), 0) << "another process: all of it";
}

// Its buffer begins where our knowledge ends: nothing can be compared.
TEST_F(EventStreamTest, AfterAReconnectAPublisherThatCantRepeatTheLastBatchIsNew) {
  Follow(5);
  Connect();
  Replay(6);
  Replay(7);
  End();
  EXPECT_THAT(Heard(), ElementsAre("lost", "6", "7"));
}

}  // namespace
}  // namespace ember::router
