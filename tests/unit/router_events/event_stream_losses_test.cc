// What can't be had or read, and what stays true meanwhile.
#include "tests/unit/router_events/event_stream_fixture.h"

namespace ember::router {
namespace {

using ::testing::ElementsAre;

TEST_F(EventStreamTest, AReplayThatNeverAnswersIsGivenUpAndTriedLater) {
  Follow(2);
  Live(5);
  for (int i = 0; i < 10 && Waits(); ++i) Pass(options_.first_answer);
  EXPECT_THAT(Heard(), ElementsAre("lost", "5"));
  Live(6);
  EXPECT_EQ(Asked(), -1);
  Pass(options_.first_resync);
  EXPECT_EQ(Asked(), 3) << "whether it can be had now";
  Live(7);
  EXPECT_THAT(Heard(), ElementsAre("6", "7")) << "nothing waits for that";
  Replay(3);
  EXPECT_EQ(Asked(), 0) << "all that can be had, to know more than what came since";
  Live(8);
  for (uint64_t n = 0; n < 8; ++n) Replay(n);
  EXPECT_THAT(Heard(), ElementsAre("lost", "0", "1", "2", "3", "4", "5", "6", "7", "8", "trusted"));
  Pass(seconds(3600));
  EXPECT_EQ(Asked(), -1) << "known again: nothing is asked for";
}

// A2
TEST_F(EventStreamTest, GarbageInAReplayIsRetriedWithGrowingPauses) {
  Follow(2);
  Live(5);
  for (int attempt = 1; attempt < options_.attempts; ++attempt) {
    EXPECT_EQ(Asked(), 3);
    stream_.OnReplayBroken(CorruptError("garbage"), now_);
    EXPECT_EQ(Asked(), -1);
    Pass(options_.first_pause);
    if (attempt > 1) EXPECT_EQ(Asked(), -1) << "the pause grew";
    Pass(options_.first_pause * 8);
  }
  Replay(3);
  Replay(4);
  EXPECT_THAT(Heard(), ElementsAre("3", "4", "5"));
}

TEST_F(EventStreamTest, ABatchThatCantBeReadIsAskedForOnce) {
  Follow(0);
  stream_.OnLive(1, AsBytes("\xc1garbage"), now_);
  EXPECT_EQ(Asked(), 1);
  Live(2);
  Replay(1);
  EXPECT_THAT(Heard(), ElementsAre("1", "2"));

  stream_.OnLive(3, AsBytes("\xc1garbage"), now_);
  EXPECT_EQ(Asked(), 3);
  stream_.OnReplayed(3, AsBytes("\xc1garbage"), now_);
  Live(4);
  EXPECT_EQ(Asked(), -1);
  EXPECT_THAT(Heard(), ElementsAre("lost", "4"));
  EXPECT_EQ(metrics_.gaps.value(), 2u);
}

// A2: garbled on its way, or never right.
TEST_F(EventStreamTest, ABatchThatCantBeReadInAReplayIsAskedForAgainOnce) {
  Follow(0);
  for (const uint64_t bad : {2, 6}) {
    Live(bad + 2);
    Replay(bad - 1);
    stream_.OnReplayed(bad, AsBytes("\xc1garbage"), now_);
    EXPECT_THAT(Heard(), ElementsAre(std::to_string(bad - 1)));
    Pass(options_.first_pause * 4);
    EXPECT_EQ(Asked(), static_cast<int64_t>(bad));
    if (bad == 2) {
      Replay(bad);
      EXPECT_THAT(Heard(), ElementsAre("2"));
    } else {
      stream_.OnReplayed(bad, AsBytes("\xc1garbage"), now_);
      EXPECT_THAT(Heard(), ElementsAre("lost"));
    }
    Replay(bad + 1);
    EXPECT_THAT(Heard(), ElementsAre(std::to_string(bad + 1), std::to_string(bad + 2)));
    EXPECT_EQ(Asked(), -1);
  }
}

// A5: the batch that could not be had is asked for later, ever more seldom while it can't be, and
// what was told since stays true meanwhile.
TEST_F(EventStreamTest, WhatIsKnownStaysWhileABatchCantBeHad) {
  const auto garbage = [this](auto take, uint64_t n) {
    (stream_.*take)(n, AsBytes("\xc1garbage"), now_);
  };
  Follow(0);
  garbage(&EventStream::OnLive, 1);
  garbage(&EventStream::OnReplayed, 1);
  End();
  EXPECT_THAT(Heard(), ElementsAre("lost"));
  Live(2);
  for (const int times : {1, 2, 4}) {
    ASSERT_TRUE(stream_.deadline());
    Pass(Duration());
    ASSERT_EQ(*stream_.deadline() - now_, times * options_.first_resync);
    Pass(times * options_.first_resync - seconds(1));
    EXPECT_EQ(Asked(), -1);
    Pass(seconds(1));
    ASSERT_EQ(Asked(), 1);
    if (times == 2) {  // too large for a message
      for (int i = 0; i < options_.attempts; ++i) {
        if (i > 0) Pass(options_.first_pause * 8);
        stream_.OnReplayBroken(UnavailableError("cut"), now_);
      }
    } else {
      garbage(&EventStream::OnReplayed, 1);
    }
    EXPECT_EQ(Asked(), -1);
    Live(static_cast<uint64_t>(times + 2));  // 3, 4, 6
    if (times == 4) {
      EXPECT_EQ(Asked(), 5) << "a gap as ever";
      Replay(5);
    }
  }
  EXPECT_THAT(Heard(), ElementsAre("2", "3", "4", "5", "6"));
  Pass(8 * options_.first_resync);
  Replay(2);  // it is gone at last
  EXPECT_EQ(Asked(), -1);
  EXPECT_FALSE(stream_.deadline()) << "no older ones than those that are known";
  EXPECT_THAT(Heard(), ElementsAre());
}

TEST_F(EventStreamTest, WhatWaitsForAReplayIsBounded) {
  Follow(0);
  for (uint64_t n = 2; n < 2 + 2 * options_.max_held; ++n) Live(n);
  Replay(1);
  EXPECT_EQ(Asked(), -1);
  EXPECT_EQ(Heard().size(), options_.max_held + 1);
  Live(2 + 2 * options_.max_held);
  EXPECT_EQ(Asked(), static_cast<int64_t>(2 + options_.max_held)) << "what found no room is a gap";
}

TEST_F(EventStreamTest, WhatWaitsForAReplayIsBoundedInBytesToo) {
  constexpr uint64_t kHeld = 10, kLive = 30;
  options_.max_held_bytes = kHeld * PayloadOf(0).size();
  EventStream stream(options_, sink_, metrics_);
  const auto live = [&](uint64_t n) { stream.OnLive(n, AsBytes(PayloadOf(n)), now_); };
  const auto replay = [&](uint64_t n) { stream.OnReplayed(n, AsBytes(PayloadOf(n)), now_); };
  stream.OnConnected(now_);
  stream.OnReplayEnd(now_);
  live(0);
  uint64_t next = 1;
  for (int round = 0; round < 3; ++round) {
    Heard();
    for (uint64_t n = next + 1; n <= next + kLive; ++n) live(n);
    replay(next);
    EXPECT_EQ(Heard().size(), 1 + kHeld) << round;
    live(next + kLive + 1);
    ASSERT_TRUE(stream.replay());
    EXPECT_EQ(stream.replay()->from, next + kHeld + 1) << "what found no room";
    for (uint64_t n = next + kHeld + 1; n <= next + kLive; ++n) replay(n);
    EXPECT_EQ(Heard().size(), kLive - kHeld + 1);
    next += kLive + 2;
  }
}

// A hostile publisher that repeats old batches for ever gets no more than its time.
TEST_F(EventStreamTest, AReplayThatBringsNothingNewIsNotWaitedFor) {
  Follow(5);
  Live(8);
  int rounds = 0;
  for (; Waits() && rounds < 1000; ++rounds) {
    Replay(2);
    Pass(seconds(1));
  }
  EXPECT_LT(rounds, 100);
  EXPECT_THAT(Heard(), ElementsAre("lost", "8"));
}

// A1: what is live waits for a replay that drips, but not for ever.
TEST_F(EventStreamTest, AReplayThatDripsHoldsNothingBackWithoutEnd) {
  Follow(0);
  Live(1000);
  uint64_t next = 1;
  for (; Asked() != -1 && next < 100; ++next) {
    Replay(next);
    EXPECT_LE(*stream_.deadline(), TimePoint() + options_.longest_hold) << "it is waked for that";
    Pass(seconds(8));
  }
  EXPECT_EQ(now_, TimePoint() + seconds(64));
  EXPECT_THAT(std::vector(sink_.heard.end() - 2, sink_.heard.end()), ElementsAre("lost", "1000"));
  Live(1001);
  EXPECT_EQ(sink_.heard.back(), "1001");
  ASSERT_TRUE(stream_.deadline()) << "asked for later, for what it may bring then";
  EXPECT_EQ(*stream_.deadline() - now_, options_.first_resync);
}

// A17: a batch that is too large for a frame ends each connection that it is asked for through.
TEST_F(EventStreamTest, ABatchThatEndsEveryConnectionIsPassedOver) {
  const auto cut = [this] {
    for (int i = 0; i < options_.attempts; ++i) {
      stream_.OnReplayBroken(CorruptError("cut"), now_);
      if (i + 1 < options_.attempts) Pass(options_.first_pause * 4);
    }
    EXPECT_EQ(Asked(), -1) << "after a pause";
    Pass(options_.first_pause);
  };
  Connect();
  Replay(0);
  Replay(1);
  stream_.OnReplayBroken(CorruptError("cut"), now_);
  Pass(options_.first_pause);
  EXPECT_EQ(Asked(), 2);
  cut();
  EXPECT_EQ(Asked(), 3);
  Replay(3);
  stream_.OnReplayBroken(CorruptError("cut"), now_);
  Pass(options_.first_pause);
  cut();
  cut();  // two in a row
  EXPECT_EQ(Asked(), 6);
  Live(8);
  Replay(6);
  Replay(7);
  EXPECT_THAT(Heard(), ElementsAre("0", "1", "lost", "3", "lost", "lost", "6", "7", "8"));
  // Asked for later, like every batch that could not be had, and nothing is given up for it.
  Pass(Duration());
  Pass(options_.first_resync);
  EXPECT_EQ(Asked(), 5);
  cut();
  Live(9);
  EXPECT_THAT(Heard(), ElementsAre("9"));
}

TEST_F(EventStreamTest, TheFirstBatchMayBeTheOneThatEndsConnections) {
  Connect();
  for (int i = 0; i < options_.attempts; ++i) {
    EXPECT_EQ(Asked(), 0);
    stream_.OnReplayBroken(CorruptError("cut"), now_);
    Pass(options_.first_pause * 4);
  }
  EXPECT_EQ(Asked(), 1);
  Replay(1);
  End();
  EXPECT_THAT(Heard(), ElementsAre("lost", "1")) << "and not trusted";
}

// Whoever ends every connection is asked no more than some times, and what is live is heard.
TEST_F(EventStreamTest, APublisherThatEndsEveryConnectionIsLeftAlone) {
  Follow(0);
  Live(100);
  const uint64_t asked = metrics_.replays.value();
  for (int i = 0; i < 100 && Waits(); ++i) {
    if (Asked() != -1) stream_.OnReplayBroken(CorruptError("cut"), now_);
    Pass(seconds(1));
  }
  EXPECT_LE(metrics_.replays.value() - asked, 12u);
  EXPECT_EQ(Heard().back(), "100");
  Live(101);
  EXPECT_THAT(Heard(), ElementsAre("101"));
}

// Nobody is there: no batch is to blame.
TEST_F(EventStreamTest, AReplayThatCantBeReachedIsGivenUpAtOnce) {
  Follow(0);
  Live(100);
  for (int i = 0; i < options_.attempts; ++i) {
    EXPECT_EQ(Asked(), 1);
    stream_.OnReplayBroken(UnavailableError("refused"), now_);
    Pass(options_.first_pause * 4);
  }
  EXPECT_EQ(Asked(), -1);
  EXPECT_THAT(Heard(), ElementsAre("lost", "100"));
}

// A2: it has fewer batches than the one before, and no end marker says so.
TEST_F(EventStreamTest, ASilentVerificationEndsWithAskingForAnything) {
  Follow(19);
  Connect();
  for (int i = 1; i < options_.attempts; ++i) {
    EXPECT_EQ(Asked(), 19);
    Pass(options_.first_answer);
    EXPECT_EQ(Asked(), -1);
    Pass(options_.first_pause * 4);
  }
  EXPECT_EQ(Asked(), 0);
  Replay(0, 1000);
  EXPECT_EQ(Asked(), 0);
  Replay(0, 1000);
  Pass(options_.stall);
  Live(1, 1000);
  EXPECT_THAT(Heard(), ElementsAre("lost", "1000", "trusted", "1001"));

  // The same one, that was busy: nothing is given up.
  Connect();
  for (int i = 1; i < options_.attempts; ++i) {
    Pass(options_.first_answer);
    Pass(options_.first_pause * 4);
  }
  EXPECT_EQ(Asked(), 0);
  for (uint64_t n = 0; n < 3; ++n) Replay(n, 1000);
  End();
  EXPECT_THAT(Heard(), ElementsAre("1002"));
}

}  // namespace
}  // namespace ember::router
