// The router's end: what is still open when the grace is over is told so, and booked as what it is.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "tests/unit/router/router_fixture.h"
#include "tests/unit/support/temp_folder.h"

namespace ember::router {
namespace {

using http::Signal;
using http::TestSocket;
using http::WireMessage;
using testing::HasSubstr;
using testing::Not;

class Shutdown : public testing::Test {
 protected:
  ~Shutdown() override { std::filesystem::remove_all(folder); }

  RouterFixture::Adjust Logging() const {
    return [this](ServiceOptions& o) { o.telemetry.access_log = folder + "/log"; };
  }
  // The whole access log; the router must have stopped.
  std::string Log() const {
    std::stringstream out;
    out << std::ifstream(folder + "/log").rdbuf();
    return out.str();
  }

  const std::string folder = MakeTempFolder();
  // Begins a stream where one is asked for, and says no more.
  FakeReplica replica{[](TestSocket& peer, const WireMessage& request) {
    if (request.body.find("stream") != std::string::npos) peer.Send(kStreamBegun);
    peer.AwaitClose();
    peer.Close();
  }};
};

TEST_F(Shutdown, StreamsGetTheErrorEventAndOthers503WhenTheGraceEnds) {
  RouterFixture router({replica.origin()}, Logging());
  TestSocket stream = router.Client(), whole = router.Client();
  stream.Send(Post(R"({"stream":true})", "x-ember-request-id: begun\r\n"));
  ASSERT_TRUE(stream.ReadUntil("data: 1\n\n"));
  whole.Send(Post("{}", "x-ember-request-id: waits\r\n"));
  ASSERT_TRUE(http::Eventually([&] { return replica.requests() == 2; }));
  router.service->Stop(milliseconds(20));
  const auto end = stream.ReadUntil("0\r\n\r\n");
  ASSERT_TRUE(end) << "the stream ends as streams end";
  EXPECT_THAT(*end, HasSubstr("\"code\":\"shutdown\""));
  EXPECT_THAT(*end, HasSubstr("data: [DONE]\n\n"));
  const WireMessage told = whole.ReadMessage();
  EXPECT_EQ(told.status(), 503);
  EXPECT_THAT(told.body, HasSubstr("\"code\":\"shutdown\""));
  EXPECT_NE(told.Field("Retry-After"), "");
  EXPECT_EQ(told.Field("x-ember-request-id"), "waits");
  EXPECT_EQ(told.Field("Connection"), "close");
  const std::string log = Log();
  EXPECT_THAT(log, HasSubstr(R"("status":200,"outcome":"shutdown")"));
  EXPECT_THAT(log, HasSubstr(R"("status":503,"outcome":"shutdown")"));
  EXPECT_THAT(log, Not(HasSubstr("client_gone")));
  EXPECT_EQ(replica.requests(), 2) << "nobody else is asked";
}

TEST_F(Shutdown, WhoWaitsForRoomAndWhoIsStillSendingAreTold503) {
  RouterFixture router({replica.origin()}, [&](ServiceOptions& o) {
    Logging()(o);
    o.replicas[0].max_concurrency = 1;
  });
  TestSocket first = router.Client(), queued = router.Client(), sending = router.Client();
  first.Send(Post("{}"));
  ASSERT_TRUE(http::Eventually([&] { return replica.requests() == 1; }));
  queued.Send(Post("{}"));
  ASSERT_TRUE(http::Eventually([&] { return router.Status().waiting == 1; }));
  const std::string request = Post(R"({"prompt":"whole"})");
  sending.Send(request.substr(0, request.size() - 4));
  ASSERT_EQ(router.Ask(Get("/health")).status(), 200) << "who came before is being read by now";
  router.service->Stop(milliseconds(20));
  for (TestSocket* client : {&first, &queued, &sending}) {
    const WireMessage told = client->ReadMessage();
    EXPECT_EQ(told.status(), 503);
    EXPECT_NE(told.Field("Retry-After"), "");
  }
  EXPECT_THAT(Log(), Not(HasSubstr("client_gone")));
}

TEST_F(Shutdown, WhoTakesNothingToTheEndHasNotLeft) {
  const std::string chunk = "10000\r\n" + std::string(65536, '\n') + "\r\n";
  FakeReplica endless([&](TestSocket& peer, const WireMessage&) {
    for (bool open = peer.Send(kStreamBegun); open;) open = peer.Send(chunk);
    peer.Close();
  });
  RouterFixture router({endless.origin()}, Logging());
  TestSocket client = router.Client();
  client.Send(Post(R"({"stream":true})"));
  ASSERT_TRUE(client.ReadUntil("data: 1\n\n"));
  router.service->Stop(milliseconds(300));  // in which all buffers fill
  EXPECT_THAT(Log(), HasSubstr(R"("status":200,"outcome":"shutdown")"));
}

TEST(ShutdownAhead, HealthTurnsBalancersAwayWhileWhoComesIsServed) {
  FakeReplica replica(Answering(JsonReply(200, "{}")));
  RouterFixture router({replica.origin()});
  TestSocket kept = router.Client();
  kept.Send(Post("{}"));
  EXPECT_EQ(kept.ReadMessage().Field("Connection"), "");
  router.service->AnnounceDrain();
  const WireMessage health = router.Ask(Get("/health"));
  EXPECT_EQ(health.status(), 503);
  EXPECT_THAT(health.body, HasSubstr(R"("status":"stopping","usable_replicas":1)"));
  EXPECT_TRUE(router.Status().stopping);
  EXPECT_EQ(router.Ask(Post("{}")).status(), 200) << "on a new connection";
  kept.Send(Post("{}"));
  const WireMessage last = kept.ReadMessage();
  EXPECT_EQ(last.status(), 200);
  EXPECT_EQ(last.Field("Connection"), "close") << "its next request goes elsewhere";
}

}  // namespace
}  // namespace ember::router
