// What one replica alone refuses: when it is left alone for that, how long, and how often it is
// told.
#include "router/fleet/refusals.h"

#include <gtest/gtest.h>

#include <string>

namespace ember::router {
namespace {

TimePoint RefusedAt(int64_t ms) { return TimePoint() + milliseconds(1'000'000 + ms); }

Refusals::Kind KindOf(const std::string& client, const std::string& model = "m") {
  return Refusals::Kind::Of(client, "/v1/chat/completions", model);
}

const Refusals::Kind kMine = KindOf("me");

TEST(Refusals, OneIsNoneAndTwoInARowLeaveItAloneForAMoment) {
  Refusals r;
  EXPECT_FALSE(r.OnAlone(401, kMine, RefusedAt(0)));
  EXPECT_FALSE(r.avoided(kMine, RefusedAt(0)));
  r.OnTaken(kMine);
  EXPECT_FALSE(r.OnAlone(401, kMine, RefusedAt(1)));
  EXPECT_FALSE(r.avoided(kMine, RefusedAt(1))) << "it took one in between";
  EXPECT_TRUE(r.OnAlone(401, kMine, RefusedAt(2)));
  EXPECT_TRUE(r.avoided(kMine, RefusedAt(251)));
  EXPECT_FALSE(r.avoided(kMine, RefusedAt(252))) << "it is tried again";
  EXPECT_EQ(r.count(), 3u);
}

TEST(Refusals, EachFurtherOneDoublesTheTimeUpToABound) {
  Refusals r;
  r.OnAlone(401, kMine, RefusedAt(0));
  int64_t now = 0;
  for (const int64_t pause : {250, 500, 1000, 2000, 4000, 8000, 8000, 8000, 8000, 8000, 8000, 8000,
                              8000, 8000, 8000, 8000, 8000, 8000, 8000}) {
    r.OnAlone(401, kMine, RefusedAt(now));
    EXPECT_FALSE(r.OnAlone(401, kMine, RefusedAt(now + 1)))
        << "what was under way says it once more";
    EXPECT_TRUE(r.avoided(kMine, RefusedAt(now + pause - 1))) << pause;
    EXPECT_FALSE(r.avoided(kMine, RefusedAt(now + pause))) << pause;
    now += pause;
  }
  r.OnTaken(kMine);
  EXPECT_FALSE(r.avoided(kMine, RefusedAt(now)));
  r.OnAlone(401, kMine, RefusedAt(now));
  r.OnAlone(401, kMine, RefusedAt(now));
  EXPECT_FALSE(r.avoided(kMine, RefusedAt(now + 250))) << "what it takes clears its record";
}

TEST(Refusals, OneThatGoesOnIsToldOnceAMinute) {
  Refusals r;
  int told = 0;
  for (int64_t now = 0; now < 10 * 60'000; now += 100)
    told += r.OnAlone(401, kMine, RefusedAt(now)) ? 1 : 0;
  EXPECT_GE(told, 8);
  EXPECT_LE(told, 10);
}

TEST(Refusals, SeveralClientsInTurnAreTheReplicasDoingUntilItTakesOne) {
  Refusals refusals;
  for (const char* client : {"a", "b", "c", "d"})
    refusals.OnAlone(429, KindOf(client), RefusedAt(0));
  EXPECT_TRUE(refusals.avoided(KindOf("e"), RefusedAt(0)));
  refusals.OnTaken(KindOf("e"));
  EXPECT_FALSE(refusals.avoided(KindOf("e"), RefusedAt(0)));
  for (const char* client : {"a", "b", "a", "b", "a", "b"}) {
    refusals.OnAlone(429, KindOf(client), RefusedAt(0));
  }
  EXPECT_TRUE(refusals.avoided(KindOf("a"), RefusedAt(0)));
  EXPECT_FALSE(refusals.avoided(KindOf("e"), RefusedAt(0))) << "two have their limits";
}

TEST(Refusals, ManyModelsThatAreNotThereSayNothingOfOthers) {
  Refusals refusals;
  for (int i = 0; i < 1000; ++i) {
    for (int twice = 0; twice < 2; ++twice) {
      refusals.OnAlone(404, KindOf("a", std::to_string(i)), RefusedAt(0));
    }
  }
  EXPECT_TRUE(refusals.avoided(KindOf("b", "999"), RefusedAt(0))) << "whoever asks";
  EXPECT_FALSE(refusals.avoided(KindOf("a", "m"), RefusedAt(0)));
  EXPECT_EQ(refusals.count(), 2000u);
}

}  // namespace
}  // namespace ember::router
