// Another replica answers while nothing was sent to the client, and never afterwards.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mutex>
#include <set>

#include "tests/unit/router/router_fixture.h"

namespace ember::router {
namespace {

using http::Signal;
using http::TestSocket;
using http::WireMessage;
using testing::HasSubstr;

TEST(Retry, AReplicaThatBreaksBeforeItsReplyIsReplaced) {
  for (const char* begun :
       {"", "HTTP/1.1 200 OK\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
        "Transfer-Encoding: chunked\r\n\r\n"}) {
    FakeReplica bad([&](TestSocket& peer, const WireMessage&) {
      peer.Send(begun);
      peer.Close();
    });
    FakeReplica good(Answering(JsonReply(200, "{\"from\":\"good\"}")));
    RouterFixture router({bad.origin(), good.origin()});
    for (int i = 0; i < 4; ++i) {
      const WireMessage reply = router.Ask(Post("{\"n\":1}"));
      EXPECT_EQ(reply.status(), 200);
      EXPECT_EQ(reply.body, "{\"from\":\"good\"}");
      EXPECT_EQ(reply.Field("x-ember-replica"), "r2");
    }
    EXPECT_GE(bad.requests(), 1);
    EXPECT_EQ(good.Request().body, "{\"n\":1}");
    EXPECT_THAT(router.Page("/metrics"),
                testing::ContainsRegex("ember_router_retries_total[{]reason=\"reset\"} [1-9]"));
  }
}

TEST(Retry, ADeadReplicaFailsNoRequestAndIsLeftAloneAtOnce) {
  auto dying = std::make_unique<FakeReplica>(Answering(JsonReply(200, "{}")));
  FakeReplica good(Answering(JsonReply(200, "{}")));
  RouterFixture router({dying->origin(), good.origin()});
  const uint16_t port = dying->origin().port;
  dying.reset();
  for (int i = 0; i < 20; ++i) EXPECT_EQ(router.Ask(Post("{}")).status(), 200) << i;
  ASSERT_TRUE(router.AwaitUsable(1));
  FakeReplica back(Answering(JsonReply(200, "{}")), port);
  ASSERT_TRUE(router.AwaitUsable(2)) << "a good probe brings it back";
  for (int i = 0; i < 4; ++i) EXPECT_EQ(router.Ask(Post("{}")).status(), 200);
  EXPECT_GE(back.requests(), 1);
}

TEST(Retry, ADrainingReplicasRefusalGoesElsewhereAndTheLastOneIsPassedOn) {
  FakeReplica one(Answering(JsonReply(503, "{\"error\":\"draining\"}")));
  FakeReplica two(Answering(JsonReply(200, "{\"from\":2}")));
  RouterFixture router({one.origin(), two.origin()});
  for (int i = 0; i < 4; ++i) EXPECT_EQ(router.Ask(Post("{}")).body, "{\"from\":2}");
  EXPECT_GE(one.requests(), 1);
  RouterFixture alone({one.origin()});
  const WireMessage reply = alone.Ask(Post("{}"));
  EXPECT_EQ(reply.status(), 503);
  EXPECT_EQ(reply.body, "{\"error\":\"draining\"}") << "nobody else is left: its own words";
}

// Those who could have been asked went while it was thinking.
TEST(Retry, WhenNobodyElseIsLeftTheReplicaSaysWhenToComeAgain) {
  for (const auto& [said, told] : {std::pair("9", "9"), {"99999999", "3600"}}) {
    for (const int status : {429, 503}) {
      Signal go;
      const auto script = [&, said = said](TestSocket& peer, const WireMessage&) {
        go.Await();
        peer.Send(JsonReply(status, "{}", "Retry-After: " + std::string(said) + "\r\n"));
      };
      FakeReplica one(script), two(script);
      RouterFixture router({one.origin(), two.origin()},
                           [](ServiceOptions& o) { o.health.probe_interval = milliseconds(10); });
      TestSocket client = router.Client();
      client.Send(Post("{}"));
      ASSERT_TRUE(http::Eventually([&] { return one.requests() + two.requests() == 1; }));
      (one.requests() == 1 ? two : one).SetHealth(500);
      ASSERT_TRUE(router.AwaitUsable(1));
      go.Set();
      const WireMessage reply = client.ReadMessage();
      EXPECT_EQ(reply.status(), status);
      EXPECT_EQ(reply.Field("Retry-After"), told);
    }
  }
}

TEST(Retry, NothingIsTakenFromAReplicaThatHangsWhenTheOthersHaveGone) {
  Signal end;
  const auto script = [&](TestSocket& peer, const WireMessage&) {
    end.Await();
    peer.Send(JsonReply(200, "{}"));
  };
  FakeReplica one(script), two(script);
  RouterFixture router({one.origin(), two.origin()}, [](ServiceOptions& o) {
    o.health.probe_interval = milliseconds(10);
    o.health.probe_timeout = milliseconds(50);
  });
  TestSocket client = router.Client();
  client.Send(Post("{}"));
  ASSERT_TRUE(http::Eventually([&] { return one.requests() + two.requests() == 1; }));
  FakeReplica& asked = one.requests() == 1 ? one : two;
  (&asked == &one ? two : one).SetHealth(500);
  ASSERT_TRUE(router.AwaitUsable(1));
  asked.SetHealth(0);
  ASSERT_TRUE(router.AwaitUsable(0));
  end.Set();
  EXPECT_EQ(client.ReadMessage().status(), 200);
}

TEST(Retry, IsBounded) {
  FakeFleet fleet(5, Answering(JsonReply(503, "{}")));
  RouterFixture router(fleet.origins());
  EXPECT_EQ(router.Ask(Post("{}")).status(), 503);
  EXPECT_EQ(fleet.requests(), 3) << "one and two more";
}

TEST(Retry, IsCountedOnlyWhenThereIsOne) {
  FakeReplica alone(Resetting());
  RouterFixture router({alone.origin()});
  EXPECT_EQ(router.Ask(Post("{}")).status(), 502);
  EXPECT_THAT(router.Page("/metrics"),
              HasSubstr("ember_router_retries_total{reason=\"reset\"} 0\n"));
}

TEST(Retry, ARequestThatBreaksReplicasIsNotWalkedThroughTheFleet) {
  FakeFleet fleet(4, Resetting());
  RouterFixture router(fleet.origins());
  EXPECT_EQ(router.Ask(Post("{}")).status(), 502);
  EXPECT_EQ(fleet.asked(), 2);
}

// Engines that close a connection after each reply without saying so: requests meet closed ones.
TEST(Retry, AKeptConnectionThatTurnsOutDeadSaysNothingOfReplicaOrRequest) {
  std::mutex mutex;
  std::set<const TestSocket*> served;
  const auto once_a_connection = [&](TestSocket& peer, const WireMessage&) {
    std::lock_guard lock(mutex);
    if (!served.insert(&peer).second) return peer.Reset();
    peer.Send(JsonReply(200, "{}"));
  };
  FakeReplica one(once_a_connection), two(once_a_connection);
  RouterFixture router({one.origin(), two.origin()});
  for (int i = 0; i < 40; ++i) {
    const std::string pin = i % 4 == 0 ? "x-ember-pin: r1\r\n" : "";
    EXPECT_EQ(router.Ask(Post("{}", pin)).status(), 200) << i;
  }
  const std::string metrics = router.Page("/metrics");
  EXPECT_THAT(metrics, HasSubstr("ember_router_retries_total{reason=\"reset\"} 0\n"));
  EXPECT_THAT(metrics, testing::Not(testing::ContainsRegex("ejections_total[^}]*} [1-9]")));
  EXPECT_THAT(metrics, testing::ContainsRegex("ember_upstream_stale_retries_total [1-9]"));
}

// D31: engines that die of a request and are back at once, whose kept connections were good. One
// may have been dead before, so the first replica is asked twice.
TEST(Retry, APoisonRequestIsGivenToTwoReplicasAtMost) {
  std::atomic<int> executed{0};
  FakeFleet fleet(4, ResettingAt("poison", &executed));
  RouterFixture router(fleet.origins());
  for (int i = 0; i < 8; ++i) EXPECT_EQ(router.Ask(Post("{}")).status(), 200);  // kept connections
  for (int i = 1; i <= 3; ++i) {
    EXPECT_EQ(router.Ask(Post("{\"poison\":1}")).status(), 502);
    EXPECT_LE(executed, i + 2);
  }
  EXPECT_EQ(router.Ask(Post("{}")).status(), 200);
}

// Only chats and completions end with [DONE].
TEST(Retry, AStreamThatBreaksOffAfterItsLastEventIsWhole) {
  const std::string completed =
      R"(data: {"response":{"id":"r","output":[]},"type":"response.completed"})";
  const std::vector<std::tuple<std::string, std::string, bool>> cases = {
      {"/v1/messages", "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n", true},
      {"/v1/messages", "event: message_stop\r\ndata: {\"type\":\"message_stop\"}\r\n\r\n", true},
      {"/v1/messages", "event: message_delta\ndata: {\"type\":\"message_stop\"}\n\n", false},
      {"/v1/responses", "event: response.completed\n" + completed + "\n\n", true},
      {"/v1/responses", "event: response.incomplete\n" + completed + "\n\n", true},
      {"/v1/responses", "event: response.failed\n" + completed + "\n\n", true},
      {"/v1/responses", "event: response.completed\n" + completed, false},
      {"/v1/responses", "event: response.in_progress\n" + completed + "\n\n", false}};
  for (const auto& [path, last, whole] : cases) {
    const std::string sent = "event: first\ndata: {}\n\n" + last;
    FakeReplica broken([&](TestSocket& peer, const WireMessage&) {
      peer.Send(
          "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: "
          "chunked\r\n\r\n");
      peer.Send(fmt::format("{:x}\r\n{}\r\n", sent.size(), sent));
      peer.Close();
    });
    RouterFixture router({broken.origin()});
    const WireMessage reply = router.Ask(Post("{\"stream\":true}", "", path));
    EXPECT_TRUE(reply.complete);
    EXPECT_THAT(reply.body, testing::StartsWith(sent));
    EXPECT_EQ(reply.body == sent, whole) << reply.body;
    EXPECT_TRUE(http::Eventually([&] {
      return router.Page("/metrics")
                 .find("ember_router_failed_midway_total " + std::to_string(whole ? 0 : 1)) !=
             std::string::npos;
    }));
  }
}

TEST(Retry, NoneAfterTheFirstByte) {
  FakeReplica cut([](TestSocket& peer, const WireMessage&) {
    peer.Send(kStreamBegun);
    peer.Close();
  });
  FakeReplica other(Answering(JsonReply(200, "{}")));
  RouterFixture router({cut.origin(), other.origin()});
  const WireMessage reply = router.Ask(Post("{\"stream\":true}", "x-ember-pin: r1\r\n"));
  EXPECT_EQ(reply.status(), 200);
  EXPECT_TRUE(reply.complete);
  EXPECT_THAT(reply.body, testing::StartsWith("data: 1\n\ndata: {\"error\":{"));
  EXPECT_THAT(reply.body, testing::EndsWith("data: [DONE]\n\n"));
  EXPECT_EQ(other.requests(), 0);
  EXPECT_TRUE(http::Eventually([&] {
    return router.Page("/metrics").find("ember_router_failed_midway_total 1") != std::string::npos;
  }));
}

// The log has the address.
void NamesTheReplica(RouterFixture& router, const std::string& id, int status, const char* error) {
  const WireMessage reply = router.Ask(Post("{}", "x-ember-pin: " + id + "\r\n"));
  EXPECT_EQ(reply.status(), status);
  EXPECT_THAT(reply.body, HasSubstr(error));
  EXPECT_THAT(reply.body, testing::Not(HasSubstr("127.0.0.1")));
  EXPECT_EQ(reply.Field("x-ember-replica"), id);
  if (reply.status() == 200) return;
  EXPECT_THAT(router.Page("/admin/explain?n=1"), HasSubstr(" 127.0.0.1:")) << id;
}

TEST(Retry, ErrorsNameTheReplicaAndNotItsAddress) {
  FakeReplica resets(Resetting());
  FakeReplica cut([](TestSocket& peer, const WireMessage&) {
    peer.Send(kStreamBegun);
    peer.Close();
  });
  auto dying = std::make_unique<FakeReplica>(Answering(JsonReply(200, "{}")));
  RouterFixture router({resets.origin(), cut.origin(), dying->origin()},
                       [](ServiceOptions& o) { o.health.probe_interval = seconds(3600); });
  dying.reset();
  NamesTheReplica(router, "r1", 502, "reply of replica r1: failed");
  NamesTheReplica(router, "r2", 200, "reply of replica r2: failed");
  NamesTheReplica(router, "r3", 503, "connect to replica r3: failed");
}

TEST(Retry, ATimeOutNamesTheReplicaAndNotItsAddress) {
  Signal done;
  FakeReplica hung([&](TestSocket&, const WireMessage&) { done.Await(); });
  RouterFixture router({hung.origin()}, [](ServiceOptions& o) {
    o.forwarder.first_byte_timeout = milliseconds(100);
    o.health.probe_interval = seconds(3600);
  });
  NamesTheReplica(router, "r1", 504, "reply of replica r1: time-out");
  done.Set();
}

TEST(Pin, ForcesTheReplicaAndNoOtherStandsIn) {
  FakeReplica one(Answering(JsonReply(200, "{}"))), two(Resetting());
  RouterFixture router({one.origin(), two.origin()});
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(router.Ask(Post("{}", "x-ember-pin: r1\r\n")).Field("x-ember-replica"), "r1");
  }
  EXPECT_EQ(router.Ask(Post("{}", "x-ember-pin: r2\r\n")).status(), 502);
  EXPECT_EQ(one.requests(), 3);
  two.SetHealth(503);
  ASSERT_TRUE(router.AwaitUsable(1));
  const WireMessage down = router.Ask(Post("{}", "x-ember-pin: r2\r\n"));
  EXPECT_EQ(down.status(), 503);
  EXPECT_THAT(down.body, HasSubstr("r2"));
}

TEST(Timeout, AReplicaThatNeverAnswersIs504AndOthersAreUnaffected) {
  Signal done;
  FakeReplica hung([&](TestSocket&, const WireMessage&) { done.Await(); });
  FakeReplica good(Answering(JsonReply(200, "{}")));
  RouterFixture router({hung.origin(), good.origin()}, [](ServiceOptions& o) {
    o.forwarder.first_byte_timeout = milliseconds(300);
  });
  TestSocket waiting = router.Client();
  waiting.Send(Post("{}", "x-ember-pin: r1\r\n"));
  for (int i = 0; i < 5; ++i)
    EXPECT_EQ(router.Ask(Post("{}", "x-ember-pin: r2\r\n")).status(), 200);
  EXPECT_EQ(waiting.ReadMessage().status(), 504);
  done.Set();
}

}  // namespace
}  // namespace ember::router
