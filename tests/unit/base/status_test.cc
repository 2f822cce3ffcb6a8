#include "proto/base/status.h"

#include <gtest/gtest.h>

namespace ember {
namespace {

TEST(Status, SaysWhatAndWhere) {
  const Status s = UnavailableError("connection refused").WithContext("node s2");
  EXPECT_EQ(s.code(), StatusCode::kUnavailable);
  EXPECT_EQ(s.ToString(), "unavailable: node s2: connection refused");
  EXPECT_EQ(OkStatus().WithContext("x").ToString(), "ok");
}

TEST(Status, UnknownCodesFromTheWireAreInternal) {
  EXPECT_EQ(StatusCodeFromWire(5), StatusCode::kCorrupt);
  EXPECT_EQ(StatusCodeFromWire(11), StatusCode::kInternal);
  EXPECT_EQ(StatusCodeFromWire(0xffffffff), StatusCode::kInternal);
}

TEST(ResultDeathTest, TakingTheValueOfAnErrorEndsTheProcess) {
  const Result<int> r = InvalidError("no");
  EXPECT_DEATH((void)r.value(), "CHECK failed");
}

}  // namespace
}  // namespace ember
