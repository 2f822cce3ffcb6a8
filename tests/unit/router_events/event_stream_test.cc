#include "router/events/event_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/unit/router_events/msgpack_writer.h"

namespace ember::router {
namespace {

using ::testing::ElementsAre;

// A batch without events whose timestamp is its number, or that of another publisher's.
std::string PayloadOf(uint64_t number, double publisher = 0) {
  return MsgpackWriter().Array(2).Double(publisher + static_cast<double>(number)).Array(0).str();
}

// Everything in the order in which it is heard: numbers of batches, "lost", "trusted".
class HeardSink final : public EventStream::Sink {
 public:
  void OnBatch(KvEventBatch batch, bool) override {
    heard.push_back(std::to_string(static_cast<int64_t>(batch.timestamp)));
  }
  void OnLost(const Status&) override { heard.push_back("lost"); }
  void OnTrusted() override { heard.push_back("trusted"); }
  std::vector<std::string> heard;
};

class EventStreamTest : public ::testing::Test {
 protected:
  void Connect() { stream_.OnConnected(now_); }
  void Live(uint64_t number, double publisher = 0) {
    const std::string payload = PayloadOf(number, publisher);
    stream_.OnLive(number, AsBytes(payload), now_);
  }
  void Replay(uint64_t number, double publisher = 0) {
    const std::string payload = PayloadOf(number, publisher);
    stream_.OnReplayed(number, AsBytes(payload), now_);
  }
  void End() { stream_.OnReplayEnd(now_); }
  // What is asked for again; -1: nothing.
  int64_t Asked() const {
    return stream_.replay() ? static_cast<int64_t>(stream_.replay()->from) : -1;
  }
  // Something is missing, and a replay is under way or about to be.
  bool Waits() const { return stream_.deadline() && *stream_.deadline() < now_ + seconds(20); }
  void Pass(Duration time) {
    now_ += time;
    stream_.Tick(now_);
  }
  // Connected to a publisher that has told 0 to `last`.
  void Follow(uint64_t last) {
    Connect();
    End();
    for (uint64_t n = 0; n <= last; ++n) Live(n);
    sink_.heard.clear();
  }
  std::vector<std::string> Heard() { return std::exchange(sink_.heard, {}); }

  MetricsRegistry registry_;
  EventMetrics metrics_{registry_};
  HeardSink sink_;
  EventStreamOptions options_{.has_replay = true};
  EventStream stream_{options_, sink_, metrics_};
  TimePoint now_{};
};

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
  Replay(5);  // older ones are gone
  Replay(6);
  Live(8);  // the subscription starts while the replay runs
  Live(9);
  Replay(7);
  EXPECT_EQ(Asked(), -1) << "nothing is missing, so no end marker is waited for";
  Live(10);
  EXPECT_THAT(Heard(), ElementsAre("trusted", "5", "6", "7", "8", "9", "10"));
  EXPECT_EQ(metrics_.gaps.value(), 0u);
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
  EXPECT_THAT(Heard(), ElementsAre("trusted", "0", "1", "2", "3"));
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
  EXPECT_THAT(Heard(), ElementsAre("lost", "trusted", "10", "11", "12", "13", "14", "15", "16",
                                   "17", "18", "19", "20"));
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

TEST_F(EventStreamTest, AReplayThatNeverAnswersIsGivenUpAndTriedLater) {
  Follow(2);
  Live(5);
  for (int i = 0; i < 10 && Waits(); ++i) Pass(options_.first_answer);
  EXPECT_THAT(Heard(), ElementsAre("lost", "5"));
  Live(6);
  EXPECT_EQ(Asked(), -1);
  Pass(options_.first_resync);
  EXPECT_EQ(Asked(), 0) << "all that can be had, to know more than what came since";
  Live(7);
  for (uint64_t n = 4; n < 7; ++n) Replay(n);
  EXPECT_THAT(Heard(), ElementsAre("6", "lost", "trusted", "4", "5", "6", "7"));
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

TEST_F(EventStreamTest, ANumberThatGoesBackIsANewPublisher) {
  Follow(20);
  Live(0, 1000);
  Live(1, 1000);
  EXPECT_THAT(Heard(), ElementsAre("lost", "trusted", "1000", "1001"));
  // One that had begun before it was heard is asked for its beginning.
  Live(1, 2000);
  EXPECT_EQ(Asked(), 0);
  Replay(0, 2000);
  EXPECT_THAT(Heard(), ElementsAre("lost", "trusted", "2000", "2001"));
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
  EXPECT_THAT(Heard(), ElementsAre("lost", "trusted", "1012", "1013", "1014", "1015"));
}

TEST_F(EventStreamTest, AfterAReconnectAPublisherWithFewerBatchesIsNew) {
  Follow(5);
  Connect();
  End();  // it has no batch 5
  EXPECT_EQ(Asked(), 0);
  Replay(0, 1000);
  End();
  EXPECT_THAT(Heard(), ElementsAre("lost", "trusted", "1000"));

  Connect();
  Live(0, 2000);  // before any answer
  EXPECT_THAT(Heard(), ElementsAre("lost", "trusted", "2000"));
}

// Its buffer begins where our knowledge ends: nothing can be compared.
TEST_F(EventStreamTest, AfterAReconnectAPublisherThatCantRepeatTheLastBatchIsNew) {
  Follow(5);
  Connect();
  Replay(6);
  Replay(7);
  End();
  EXPECT_THAT(Heard(), ElementsAre("lost", "trusted", "6", "7"));
}

TEST_F(EventStreamTest, ABatchThatCantBeReadIsAskedForOnce) {
  Follow(0);
  stream_.OnLive(1, AsBytes("\xc1garbage"), now_);
  EXPECT_EQ(Asked(), 1);
  Live(2);
  Replay(1);
  EXPECT_THAT(Heard(), ElementsAre("1", "2"));

  stream_.OnLive(3, AsBytes("\xc1garbage"), now_);
  stream_.OnReplayed(3, AsBytes("\xc1garbage"), now_);
  Live(4);
  EXPECT_EQ(Asked(), -1);
  EXPECT_THAT(Heard(), ElementsAre("lost", "4"));
  EXPECT_EQ(metrics_.gaps.value(), 2u);
}

// All that can be had is asked for later, ever more seldom while it has the batch.
TEST_F(EventStreamTest, AStreamWithABatchThatCantBeReadIsTrustedAgainOnceItIsGone) {
  const auto garbage = [this](auto take, uint64_t n) {
    (stream_.*take)(n, AsBytes("\xc1garbage"), now_);
  };
  Follow(0);
  garbage(&EventStream::OnLive, 1);
  garbage(&EventStream::OnReplayed, 1);
  End();
  EXPECT_THAT(Heard(), ElementsAre("lost"));
  for (const int times : {1, 2}) {
    ASSERT_TRUE(stream_.deadline());
    Pass(Duration());
    ASSERT_EQ(*stream_.deadline() - now_, times * options_.first_resync);
    Pass(times * options_.first_resync - seconds(1));
    EXPECT_EQ(Asked(), -1);
    Pass(seconds(1));
    ASSERT_EQ(Asked(), 0);
    Replay(0);
    garbage(&EventStream::OnReplayed, 1);
    End();
    EXPECT_THAT(Heard(), ElementsAre("lost", "trusted", "0", "lost"));
  }
  Live(2);
  Pass(Duration());
  Pass(4 * options_.first_resync);
  ASSERT_EQ(Asked(), 0);
  Replay(2);
  End();
  EXPECT_THAT(Heard(), ElementsAre("2", "lost", "trusted", "2"));
  EXPECT_FALSE(stream_.deadline());
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

}  // namespace
}  // namespace ember::router
