// How soon a publisher that comes back is followed again (A7).
#include "router/events/reopen_pause.h"

#include <gtest/gtest.h>

namespace ember::router {
namespace {

TEST(ReopenPause, AQuietEngineThatRestartsIsFollowedAtOnce) {
  ReopenPause pause;
  TimePoint now{};
  for (int restarts = 0; restarts < 20; ++restarts) {
    pause.OnConnected(now);
    now += seconds(60);
    EXPECT_EQ(pause.Next(false, now), ReopenPause::kFirst);
  }
}

TEST(ReopenPause, OneThatCrashesAgainAndAgainWithinTwoSeconds) {
  ReopenPause pause;
  TimePoint now{};
  Duration last{};
  for (int crashes = 0; crashes < 20; ++crashes) {
    pause.OnConnected(now);
    last = pause.Next(false, now + milliseconds(10));
    EXPECT_LE(last, seconds(2));
    now += last;
  }
  EXPECT_EQ(last, seconds(2));
  pause.OnMessage();
  EXPECT_EQ(pause.Next(false, now), ReopenPause::kFirst);
}

TEST(ReopenPause, WhoSendsGarbageIsLeftAlone) {
  ReopenPause pause;
  TimePoint now{};
  Duration last{};
  for (int times = 0; times < 20; ++times) {
    pause.OnConnected(now);
    now += seconds(5);
    last = pause.Next(true, now);
  }
  EXPECT_EQ(last, seconds(10)) << "however long it takes to say it";
}

}  // namespace
}  // namespace ember::router
