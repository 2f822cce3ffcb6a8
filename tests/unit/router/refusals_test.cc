// What one replica alone refuses: when it is left alone for that, how long, and how often it is
// told.
#include "router/fleet/refusals.h"

#include <gtest/gtest.h>

namespace ember::router {
namespace {

TimePoint At(int64_t ms) { return TimePoint() + milliseconds(1'000'000 + ms); }

TEST(Refusals, OneIsNoneAndTwoInARowLeaveItAloneForAMoment) {
  Refusals r;
  EXPECT_FALSE(r.OnAlone(At(0)));
  EXPECT_FALSE(r.avoided(At(0)));
  r.OnTaken();
  EXPECT_FALSE(r.OnAlone(At(1)));
  EXPECT_FALSE(r.avoided(At(1))) << "it took one in between";
  EXPECT_TRUE(r.OnAlone(At(2)));
  EXPECT_TRUE(r.avoided(At(251)));
  EXPECT_FALSE(r.avoided(At(252))) << "it is tried again";
  EXPECT_EQ(r.count(), 3u);
}

TEST(Refusals, EachFurtherOneDoublesTheTimeUpToABound) {
  Refusals r;
  r.OnAlone(At(0));
  int64_t now = 0;
  for (const int64_t pause : {250, 500, 1000, 2000, 4000, 8000, 8000, 8000, 8000, 8000, 8000, 8000,
                              8000, 8000, 8000, 8000, 8000, 8000, 8000}) {
    r.OnAlone(At(now));
    EXPECT_FALSE(r.OnAlone(At(now + 1))) << "what was under way says it once more";
    EXPECT_TRUE(r.avoided(At(now + pause - 1))) << pause;
    EXPECT_FALSE(r.avoided(At(now + pause))) << pause;
    now += pause;
  }
  r.OnTaken();
  EXPECT_FALSE(r.avoided(At(now)));
  r.OnAlone(At(now));
  r.OnAlone(At(now));
  EXPECT_FALSE(r.avoided(At(now + 250))) << "what it takes clears its record";
}

TEST(Refusals, OneThatGoesOnIsToldOnceAMinute) {
  Refusals r;
  int told = 0;
  for (int64_t now = 0; now < 10 * 60'000; now += 100) told += r.OnAlone(At(now)) ? 1 : 0;
  EXPECT_GE(told, 8);
  EXPECT_LE(told, 10);
}

}  // namespace
}  // namespace ember::router
