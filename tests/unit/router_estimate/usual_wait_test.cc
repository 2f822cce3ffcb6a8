#include "router/estimate/usual_wait.h"

#include <gtest/gtest.h>

namespace ember::router {
namespace {

TEST(UsualWait, IsTheMeanOfItsKindAndLongerForLongerPrompts) {
  UsualWait wait;
  EXPECT_EQ(wait.Of(true, 1000), 0) << "nothing is known";
  wait.Observe(true, 1000, 100);
  EXPECT_EQ(wait.Of(false, 1000), 0) << "a whole reply is another matter";
  EXPECT_EQ(wait.Of(true, 1000), 100);
  EXPECT_EQ(wait.Of(true, 10), 100) << "a short one may wait as long";
  EXPECT_EQ(wait.Of(true, 20'000), 2000);
  wait.Observe(false, 0, 5000);
  EXPECT_EQ(wait.Of(false, 0), 5000);
  for (int i = 0; i < 100; ++i) wait.Observe(true, 1000, i % 2 == 0 ? 300 : 500);
  EXPECT_NEAR(wait.Of(true, 1000), 400, 20);
}

}  // namespace
}  // namespace ember::router
