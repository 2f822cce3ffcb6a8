#include "client/cluster/view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ember::cluster {
namespace {

using ::testing::HasSubstr;

TEST(StaticView, SortsMembersById) {
  Result<View> view = ParseStaticView("b=127.0.0.1:7102,a=[::1]:7101,c=store-3.local:7103");
  ASSERT_TRUE(view.ok()) << view.status().ToString();
  EXPECT_EQ(view->number, 1u);
  ASSERT_EQ(view->members.size(), 3u);
  EXPECT_EQ(view->members[0], (wire::Member{.id = "a", .host = "::1", .port = 7101}));
  EXPECT_EQ(view->members[1], (wire::Member{.id = "b", .host = "127.0.0.1", .port = 7102}));
  EXPECT_EQ(view->members[2], (wire::Member{.id = "c", .host = "store-3.local", .port = 7103}));
}

struct BadView {
  const char* text;
  const char* named;  // what the message must point at
};

class StaticViewErrors : public ::testing::TestWithParam<BadView> {};

TEST_P(StaticViewErrors, NameWhatIsWrong) {
  Result<View> view = ParseStaticView(GetParam().text);
  ASSERT_FALSE(view.ok());
  EXPECT_EQ(view.status().code(), StatusCode::kInvalid);
  EXPECT_THAT(std::string(view.status().message()), HasSubstr(GetParam().named));
}

INSTANTIATE_TEST_SUITE_P(
    All, StaticViewErrors,
    ::testing::Values(BadView{"", "empty list"}, BadView{"127.0.0.1:7101", "\"127.0.0.1:7101\""},
                      BadView{"=127.0.0.1:7101", "id"}, BadView{"a b=127.0.0.1:7101", "\"a b="},
                      BadView{"a=127.0.0.1", "port"}, BadView{"a=127.0.0.1:0", "port 0"},
                      BadView{"a=127.0.0.1:70000", "65535"}, BadView{"a=::1:7101", "brackets"},
                      BadView{"a=127.0.0.1:1,", "\"\""},
                      BadView{"a=127.0.0.1:1,,b=127.0.0.1:2", "\"\""},
                      BadView{"a=127.0.0.1:1,a=127.0.0.1:2", "\"a\" stands twice"},
                      BadView{"a=127.0.0.1:1,b=127.0.0.1:1", "127.0.0.1:1 stands twice"}));

TEST(StaticView, BoundsTheNumberOfMembers) {
  std::string text;
  for (int i = 1; i <= 1025; ++i) {
    text += (i > 1 ? "," : "") + std::string("n") + std::to_string(i) + "=h:" + std::to_string(i);
  }
  EXPECT_FALSE(ParseStaticView(text).ok());
  text.resize(text.rfind(','));
  EXPECT_TRUE(ParseStaticView(text).ok());
}

TEST(CheckedView, RefusesWhatAnotherProcessMayNotSay) {
  EXPECT_FALSE(CheckedView(1, {}).ok());
  EXPECT_FALSE(CheckedView(1, {{.id = "a", .host = "", .port = 1}}).ok());
  EXPECT_FALSE(CheckedView(1, {{.id = "a\n", .host = "h", .port = 1}}).ok());
  EXPECT_TRUE(CheckedView(9, {{.id = "a", .host = "h", .port = 1}}).ok());
}

}  // namespace
}  // namespace ember::cluster
