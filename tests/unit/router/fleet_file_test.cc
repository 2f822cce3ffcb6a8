// A file that names replicas, followed as it changes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/unit/router/admin_fixture.h"
#include "tests/unit/support/temp_folder.h"

namespace ember::router {
namespace {

using http::Eventually;
using testing::HasSubstr;

class FleetFileTest : public testing::Test {
 protected:
  ~FleetFileTest() override { std::filesystem::remove_all(folder); }
  void Write(const std::string& text, const std::string& name = "fleet") const {
    std::ofstream(folder + "/" + name) << text;
  }
  void Follow(ServiceOptions& o) const {
    AdminOnDoor(o);
    o.fleet_file = path;
    o.fleet_file_interval = milliseconds(10);
  }
  static std::string Line(const std::string& id, const FakeReplica& r) {
    return id + " http=" + r.origin().ToString() + "\n";
  }
  const std::string folder = MakeTempFolder();
  const std::string path = folder + "/fleet";
};

TEST_F(FleetFileTest, IsFollowedAndABadOneKeepsTheOldFleet) {
  FakeReplica one(Answering(JsonReply(200, "{}"))), two(Answering(JsonReply(200, "{}")));
  Write(Line("a", one));
  RouterFixture router({}, [this](ServiceOptions& o) { Follow(o); });
  ASSERT_TRUE(router.AwaitUsable(1));
  Write(Line("a", one) + Line("b", two), "new");
  std::filesystem::rename(folder + "/new", path);
  ASSERT_TRUE(router.AwaitUsable(2));
  Write(Line("a", one) + "b http=nowhere\n");
  const auto list = [&] { return router.Ask(Call("GET", "/admin/replicas")).body; };
  ASSERT_TRUE(Eventually([&] { return list().find("line 2") != std::string::npos; })) << list();
  EXPECT_EQ(router.Status().replicas.size(), 2u);
  EXPECT_EQ(router.Ask(Call("DELETE", "/admin/replicas/a")).status(), 409) << "it is the file's";
  std::filesystem::remove(path);
  ASSERT_TRUE(Eventually([&] { return list().find("not there any more") != std::string::npos; }));
  EXPECT_EQ(router.Status().replicas.size(), 2u);
  Write(Line("b", two));
  ASSERT_TRUE(Eventually([&] { return router.Status().replicas.size() == 1; }));
  EXPECT_THAT(list(), HasSubstr("\"troubles\":{}"));
  EXPECT_EQ(router.Ask(Post("{}")).Field("x-ember-replica"), "b");
}

TEST_F(FleetFileTest, OneThatIsExchangedWholeRefusesNobody) {  // D29
  FakeReplica replica(Answering(JsonReply(200, "{}")));
  Write(Line("n0", replica));
  RouterFixture router({}, [this](ServiceOptions& o) { Follow(o); });
  ASSERT_TRUE(router.AwaitUsable(1));
  for (int i = 1; i <= 20; ++i) {
    Write(Line("n" + std::to_string(i), replica), "new");
    std::filesystem::rename(folder + "/new", path);
    while (router.Ask(Get("/admin/status")).body.find("\"n" + std::to_string(i) + "\"") ==
           std::string::npos)
      ASSERT_EQ(router.Ask(Post("{}")).status(), 200) << i;
    ASSERT_EQ(router.Ask(Post("{}")).status(), 200) << i;
  }
}

TEST_F(FleetFileTest, MayComeAfterTheRouter) {
  FakeReplica one(Answering(JsonReply(200, "{}")));
  RouterFixture router({}, [this](ServiceOptions& o) { Follow(o); });
  EXPECT_EQ(router.Ask(Post("{}")).status(), 503);
  Write(Line("a", one));
  ASSERT_TRUE(router.AwaitUsable(1));
  EXPECT_EQ(router.Ask(Post("{}")).status(), 200);
}

// As later: else a router that starts again stays down for what a running one only reports.
TEST_F(FleetFileTest, WhatOthersHoldOrThereIsNoRoomForIsNoReasonNotToStart) {
  FakeReplica one(Answering(JsonReply(200, "{}"))), two(Answering(JsonReply(200, "{}")));
  Write(Line("r1", two) + Line("f", two));
  {
    RouterFixture router(
        {one.origin()}, [this](ServiceOptions& o) { Follow(o); }, 2);
    EXPECT_THAT(router.Ask(Call("GET", "/admin/replicas")).body,
                HasSubstr("is known from another source (flag)"));
    EXPECT_THAT(router.Page("/metrics"),
                HasSubstr("ember_router_fleet_source_trouble{source=\"file\"} 1"));
    Write(Line("f", two));
    EXPECT_TRUE(Eventually([&] {
      return router.Page("/metrics").find("trouble{source=\"file\"} 0") != std::string::npos;
    }));
  }
  std::string more_than_fit;
  for (int i = 0; i < 9; ++i) {
    more_than_fit += "n" + std::to_string(i) + " http=" + one.origin().ToString() + " ranks=64\n";
  }
  Write(more_than_fit);
  RouterFixture router({}, [this](ServiceOptions& o) { Follow(o); });
  EXPECT_EQ(router.Status().replicas.size(), 8 * 64u);
  EXPECT_THAT(router.Page("/metrics"),
              HasSubstr("ember_router_fleet_source_trouble{source=\"file\"} 1"));
}

TEST_F(FleetFileTest, WhatMayPassIsTriedAgainThoughTheFileStaysAsItIs) {
  FakeReplica one(Answering(JsonReply(200, "{}")));
  RouterFixture router({}, [this](ServiceOptions& o) { Follow(o); });
  Write("a http=" + one.origin().ToString() + " key_file=" + folder + "/key\n");
  ASSERT_TRUE(Eventually([&] {
    const std::string list = router.Ask(Call("GET", "/admin/replicas")).body;
    return list.find("can't be read") != std::string::npos;
  }));
  Write("s3cret\n", "key");
  EXPECT_TRUE(router.AwaitUsable(1));
}

}  // namespace
}  // namespace ember::router
