// Whose share of the queue a request has.
#include "router/admission/known_credentials.h"

#include <gtest/gtest.h>

#include "router/admission/peer_network.h"

namespace ember::router {
namespace {

TEST(KnownCredentials, AreThoseThatReplicasTook) {
  KnownCredentials known;
  known.OnAnswer("", 200);
  EXPECT_FALSE(known.Knows(""));
  for (const int status : {0, 400, 403, 404, 429, 500, 503}) known.OnAnswer("Bearer a", status);
  EXPECT_FALSE(known.Knows("Bearer a")) << "no answer to whether it is good";
  known.OnAnswer("Bearer a", 200);
  known.OnAnswer("Bearer a", 200);
  known.OnAnswer("Bearer a", 500);
  EXPECT_TRUE(known.Knows("Bearer a"));
  EXPECT_FALSE(known.Knows("Bearer b"));
  known.OnAnswer("Bearer a", 401);
  EXPECT_FALSE(known.Knows("Bearer a")) << "it was withdrawn";
}

TEST(KnownCredentials, AreBoundedAndThoseInUseStay) {
  KnownCredentials known;
  known.OnAnswer("mine", 200);
  known.OnAnswer("idle", 200);
  for (size_t i = 0; i < KnownCredentials::kMax; ++i) {
    ASSERT_TRUE(known.Knows("mine")) << i;
    known.OnAnswer(std::to_string(i), 200);
  }
  EXPECT_TRUE(known.Knows("mine"));
  EXPECT_FALSE(known.Knows("idle"));
}

TEST(NetworkOf, IsWhatAClientCannotChangeAtWill) {
  EXPECT_EQ(NetworkOf("10.1.2.3:50312"), "10.1.2.3");
  EXPECT_EQ(NetworkOf("[2001:db8:1:2:3:4:5:6]:1"), "2001:db8:1:2::");
  EXPECT_EQ(NetworkOf("[2001:db8:1:2:ffff::9]:65535"), "2001:db8:1:2::");
  EXPECT_NE(NetworkOf("[2001:db8:1:3::1]:1"), NetworkOf("[2001:db8:1:2::1]:1"));
  EXPECT_EQ(NetworkOf("[::ffff:10.1.2.3]:7"), "10.1.2.3");
  EXPECT_EQ(NetworkOf("?"), "?");
}

}  // namespace
}  // namespace ember::router
