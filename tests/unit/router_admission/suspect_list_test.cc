#include "router/admission/suspect_list.h"

#include <gtest/gtest.h>

namespace ember::router {
namespace {

using Failure = SuspectList::Failure;

Checksum Digest(int i) { return Xxh3Of(AsBytes(std::to_string(i))); }
TimePoint At(int ms) { return TimePoint() + milliseconds(ms); }

TEST(SuspectList, CountsForgetsAndAcquits) {
  SuspectList list;
  EXPECT_TRUE(list.Empty(At(0)));
  list.OnFailure(Failure::kBroke, Digest(1), 0, At(0), At(0));
  list.OnFailure(Failure::kBroke, Digest(1), 1, At(0), At(10));
  list.OnFailure(Failure::kBroke, Digest(2), 1, At(0), At(10));
  EXPECT_EQ(list.Breaks(Digest(1), At(20)), 2);
  EXPECT_EQ(list.Breaks(Digest(3), At(20)), 0);
  EXPECT_EQ(list.RefusedFor(Digest(1), At(20)), Duration::zero());
  list.OnServed(Digest(2));
  EXPECT_EQ(list.Breaks(Digest(2), At(20)), 0);
  const TimePoint later = At(10) + SuspectList::kMemory;
  EXPECT_EQ(list.Breaks(Digest(1), later), 0);
  EXPECT_TRUE(list.Empty(later));
  list.OnFailure(Failure::kBroke, Digest(1), 0, later, later);
  EXPECT_EQ(list.Breaks(Digest(1), later), 1) << "the old ones don't count any more";
  EXPECT_FALSE(list.Empty(later));
}

// A harmless one that stood beside it is served soon, and a guilty one breaks ever fewer.
TEST(SuspectList, AGuiltyOneIsTriedOnceAfterItsHoldWhichDoublesWithEachBreak) {
  SuspectList list;
  TimePoint now = At(0);
  for (uint32_t i = 0; i < 3; ++i) list.OnFailure(Failure::kBroke, Digest(1), i, now, now);
  Duration hold = seconds(10);
  for (int i = 0; i < 8; ++i) {
    EXPECT_EQ(list.RefusedFor(Digest(1), now + milliseconds(1)), hold - milliseconds(1)) << i;
    now += hold;
    EXPECT_EQ(list.RefusedFor(Digest(1), now), Duration::zero()) << i;
    EXPECT_GE(list.Breaks(Digest(1), now), SuspectList::kSuspect) << "at one replica";
    EXPECT_GT(list.RefusedFor(Digest(1), now), Duration::zero()) << "by one at a time";
    list.OnFailure(Failure::kBroke, Digest(1), 0, now, now + milliseconds(5));
    now += milliseconds(5);
    hold = std::min<Duration>(2 * hold, SuspectList::kLongestHold);
  }
  list.OnServed(Digest(1));
  EXPECT_EQ(list.RefusedFor(Digest(1), now), Duration::zero());
  EXPECT_EQ(list.RefusedFor(Digest(1), now), Duration::zero());
  for (uint32_t i = 0; i < 3; ++i) list.OnFailure(Failure::kBroke, Digest(2), i, now, now);
  now += SuspectList::kFirstHold + SuspectList::kMemory;
  EXPECT_EQ(list.Breaks(Digest(2), now), 0) << "nobody asked for it again";
}

TEST(SuspectList, OneDeathThatCutsManyCountsOnce) {
  SuspectList list;
  for (int i = 0; i < 64; ++i) list.OnFailure(Failure::kBroke, Digest(1), 7, At(i), At(100));
  EXPECT_EQ(list.Breaks(Digest(1), At(100)), 1);
  list.OnFailure(Failure::kBroke, Digest(1), 8, At(50), At(101));
  EXPECT_EQ(list.Breaks(Digest(1), At(101)), 2) << "another replica";
  list.OnFailure(Failure::kBroke, Digest(1), 7, At(200), At(210));
  EXPECT_EQ(list.Breaks(Digest(1), At(210)), 3) << "sent again, and it died again";
}

// D31: an engine may answer with an error what kills it a moment later.
TEST(SuspectList, WhatWasAnsweredWithAnErrorJustBeforeADeathBrokeTheReplica) {
  SuspectList list;
  const TimePoint late = At(10) + SuspectList::kLastWords;
  for (int twin = 0; twin < 5; ++twin) {
    list.OnFailure(Failure::kServerError, Digest(1), 0, At(0), At(10 + twin));
  }
  list.OnFailure(Failure::kServerError, Digest(2), 1, At(0), At(10));
  list.OnFailure(Failure::kServerError, Digest(3), 0, At(0), At(10));
  list.OnServed(Digest(3));
  list.OnDeath(0, late - milliseconds(1));
  list.OnDeath(0, late - milliseconds(1));
  list.OnDeath(1, late);
  EXPECT_EQ(list.Breaks(Digest(1), late), 1) << "once a death";
  EXPECT_EQ(list.Breaks(Digest(2), late), 0) << "that was long ago";
  EXPECT_EQ(list.Breaks(Digest(3), late), 0) << "it was served";
  list.OnFailure(Failure::kServerError, Digest(4), 0, At(0), At(10));
  list.OnFailure(Failure::kBroke, Digest(4), 0, At(5), At(20));
  list.OnDeath(0, At(30));
  EXPECT_EQ(list.Breaks(Digest(4), At(30)), 1) << "an error and a broken connection of one death";
  for (uint32_t n : {1, 2}) {
    list.OnFailure(Failure::kServerError, Digest(4), n, At(40), At(50));
    list.OnDeath(n, At(60));
  }
  EXPECT_EQ(list.RefusedFor(Digest(4), At(60)), SuspectList::kFirstHold);
}

// It may hang for reasons of its own, and be killed for that.
TEST(SuspectList, WhatOnlyHungBeforeADeathBrokeNothing) {
  SuspectList list;
  list.OnFailure(Failure::kNoReply, Digest(1), 0, At(0), At(10));
  list.OnDeath(0, At(20));
  EXPECT_EQ(list.Breaks(Digest(1), At(20)), 0);
  EXPECT_EQ(list.FailedAt(Digest(1), At(20)), 0u);
}

// D31: what a request fails at everywhere is nothing against the replicas.
TEST(SuspectList, WhatFailedElsewhereTooIsNoReplicasFault) {
  SuspectList list;
  EXPECT_TRUE(list.OnFailure(Failure::kServerError, Digest(1), 0, At(0), At(10)));
  EXPECT_FALSE(list.OnFailure(Failure::kServerError, Digest(1), 0, At(5), At(11)))
      << "sent before the first failed";
  EXPECT_TRUE(list.OnFailure(Failure::kServerError, Digest(1), 0, At(20), At(30)));
  EXPECT_EQ(list.FailedAt(Digest(1), At(30)), 0u);
  EXPECT_FALSE(list.OnFailure(Failure::kServerError, Digest(1), 1, At(40), At(50)));
  EXPECT_FALSE(list.OnFailure(Failure::kServerError, Digest(1), 0, At(60), At(70)));
  EXPECT_EQ(list.FailedAt(Digest(1), At(70)), std::nullopt) << "no replica is better than others";
  EXPECT_EQ(list.Breaks(Digest(1), At(70)), 0) << "it broke nothing";
  EXPECT_TRUE(list.OnFailure(Failure::kBroke, Digest(2), 0, At(0), At(70)));
  EXPECT_FALSE(list.OnFailure(Failure::kBroke, Digest(2), 1, At(0), At(71)));
  EXPECT_TRUE(list.OnFailure(Failure::kBroke, Digest(3), 0, At(0), At(72)));
  EXPECT_EQ(list.FailedAt(Digest(3), At(73)), std::nullopt) << "it must not break another one";
  list.OnServed(Digest(1));
  EXPECT_TRUE(list.OnFailure(Failure::kServerError, Digest(1), 1, At(80), At(90)));
  EXPECT_EQ(list.FailedAt(Digest(1), At(90) + SuspectList::kMemory), std::nullopt);
}

TEST(SuspectList, IsBounded) {
  SuspectList list;
  for (int i = 0; i < 5000; ++i) list.OnFailure(Failure::kBroke, Digest(i), 0, At(i), At(i));
  EXPECT_EQ(list.Breaks(Digest(0), At(5000)), 0) << "the oldest made room";
  EXPECT_EQ(list.Breaks(Digest(4999), At(5000)), 1);
}

}  // namespace
}  // namespace ember::router
