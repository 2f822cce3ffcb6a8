// What a running fleet is told anew without losing what is known of it, and why a replica is not
// up.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/unit/router/router_fixture.h"
#include "tests/unit/support/temp_folder.h"

namespace ember::router {
namespace {

using http::Eventually;
using http::TestSocket;
using testing::HasSubstr;
using testing::Not;

class TunedFleet : public testing::Test {
 protected:
  ~TunedFleet() override { std::filesystem::remove_all(folder); }
  // The file's one replica, with these fields.
  void Write(const FakeReplica& replica, const std::string& fields) const {
    std::ofstream(folder + "/new") << "a http=" << replica.origin().ToString() << " " << fields;
    std::filesystem::rename(folder + "/new", folder + "/fleet");
  }
  const std::string folder = MakeTempFolder();
};

TEST_F(TunedFleet, AnotherWeightLimitOrKeyForgetsNothing) {
  FakeReplica replica(Answering(JsonReply(200, "{}")));
  Write(replica, "weight=1");
  RouterFixture router({}, [this](ServiceOptions& o) {
    o.fleet_file = folder + "/fleet";
    o.fleet_file_interval = milliseconds(10);
    o.health.probe_interval = milliseconds(10);
    o.router.default_policy = FindPolicy("cache_aware");
  });
  ASSERT_TRUE(router.AwaitUsable(1));
  const std::string body =
      R"({"messages":[{"role":"user","content":")" + std::string(4000, 'x') + "\"}]}";
  ASSERT_EQ(router.Ask(Post(body)).status(), 200);
  const uint64_t held = router.Status().replicas[0].held.any;
  ASSERT_GT(held, 0u);
  Write(replica, "weight=3 max_concurrency=7 key=s3cret");
  ASSERT_TRUE(
      Eventually([&] { return replica.Probe().Field("Authorization") == "Bearer s3cret"; }));
  const ReplicaReport told = router.Status().replicas[0];
  EXPECT_EQ(told.state, "up");
  EXPECT_EQ(told.held.any, held);
  EXPECT_EQ(told.totals.requests, 1u);
  ASSERT_EQ(router.Ask(Post(body)).status(), 200);
  EXPECT_THAT(router.Page("/admin/explain?n=1"), Not(HasSubstr("\"device_tokens\":0,")));
}

// An id that came by the admin API first.
TEST_F(TunedFleet, AnIdOfAnotherSourceHoldsBackNoneOfTheFileAndIsTakenUpWhenItIsFree) {
  FakeReplica one(Answering(JsonReply(200, "{}"))), two(Answering(JsonReply(200, "{}")));
  Write(one, "");
  RouterFixture router({}, [this](ServiceOptions& o) {
    o.fleet_file = folder + "/fleet";
    o.fleet_file_interval = milliseconds(10);
    o.admin.on_door = true;
    o.admin.token = "t0ken";
  });
  const std::string headers = "Content-Type: application/json\r\nAuthorization: Bearer t0ken\r\n";
  ASSERT_TRUE(router.AwaitUsable(1));
  const std::string added = "{\"id\":\"b\",\"http\":\"" + two.origin().ToString() + "\"}";
  ASSERT_EQ(router.Ask(Post(added, headers, "/admin/replicas")).status(), 201);
  Write(one, "\nb http=" + one.origin().ToString() + "\nc http=" + one.origin().ToString());
  ASSERT_TRUE(router.AwaitUsable(3)) << "c joins, b is as it was";
  const auto says = [&](const char* value) {
    const std::string line =
        "ember_router_fleet_source_trouble{source=\"file\"} " + std::string(value) + "\n";
    return Eventually([&] { return router.Page("/metrics").find(line) != std::string::npos; });
  };
  EXPECT_TRUE(says("1"));
  EXPECT_THAT(router.Ask("GET /admin/replicas HTTP/1.1\r\nHost: a\r\n" + headers + "\r\n").body,
              HasSubstr("is known from another source (admin)"));
  ASSERT_EQ(
      router.Ask("DELETE /admin/replicas/b HTTP/1.1\r\nHost: a\r\n" + headers + "\r\n").status(),
      200);
  EXPECT_TRUE(says("0")) << "without the file being touched";
  ASSERT_TRUE(router.AwaitUsable(3));
}

std::string WhyNot(const RouterFixture& router) {
  std::string why;
  EXPECT_TRUE(Eventually([&] {
    why = router.Status().replicas[0].why_unhealthy;
    return why.starts_with("probe: ");
  }));
  return why;
}

TEST_F(TunedFleet, EverySuccessOfItsHealthPageIsOne) {
  FakeReplica replica(Answering(JsonReply(200, "{}")));
  replica.SetHealth(204);
  RouterFixture router({replica.origin()}, nullptr, 0);
  EXPECT_TRUE(router.AwaitUsable(1));
}

TEST_F(TunedFleet, AReplicaThatIsNotUpSaysWhatMayBeWrong) {
  FakeReplica replica(Answering(JsonReply(200, "{}")));
  for (const auto& [status, hint] : {std::pair(401, "key="), {404, "--health-path"}}) {
    replica.SetHealth(status);
    RouterFixture router({replica.origin()}, nullptr, 0);
    EXPECT_THAT(WhyNot(router), HasSubstr(hint));
  }
  // A server of TLS that is asked in plain text.
  for (const bool reset : {false, true}) {
    http::FakeUpstream silent([&](TestSocket& peer) {
      peer.ReadMessage();
      reset ? peer.Reset() : peer.Close();
    });
    RouterFixture router({silent.origin()}, nullptr, 0);
    EXPECT_THAT(WhyNot(router), HasSubstr("is it https?")) << reset;
  }
}

}  // namespace
}  // namespace ember::router
