// More than the replicas take: a bounded, fair queue in front of them, and plain refusals.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "tests/unit/router/slow_replica.h"

namespace ember::router {
namespace {

using http::Eventually;
using http::TestSocket;
using http::WireMessage;
using testing::HasSubstr;

class QueueTest : public testing::Test {
 protected:
  void TearDown() override { slow.Answer(100000); }
  RouterFixture Router(uint32_t at_once, std::function<void(AdmissionOptions&)> adjust = nullptr) {
    return RouterFixture({slow.replica.origin()}, [=](ServiceOptions& o) {
      o.replicas[0].max_concurrency = at_once;
      if (adjust) adjust(o.admission);
    });
  }
  void Send(const RouterFixture& router, const std::string& name, const std::string& key = "k",
            uint8_t from = 1, const std::string& more = "") {
    clients.push_back(TestSocket::ConnectTo(router.service->port(), from));
    clients.back().Send(
        Post("{}", "X-Name: " + name + "\r\nAuthorization: Bearer " + key + "\r\n" + more));
  }
  static bool AwaitWaiting(const RouterFixture& router, int n) {
    return Eventually([&] { return MetricOf(router, "ember_router_waiting") == n; });
  }
  SlowReplica slow;
  std::vector<TestSocket> clients;
};

TEST_F(QueueTest, AReplicaNeverGetsMoreThanItsLimitAndAllAreServed) {
  RouterFixture router = Router(2);
  for (int i = 0; i < 10; ++i) Send(router, std::to_string(i));
  ASSERT_TRUE(AwaitWaiting(router, 8));
  ASSERT_TRUE(Eventually([&] { return slow.most_at_once() == 2; }));
  slow.Answer(10);
  for (TestSocket& client : clients) EXPECT_EQ(client.ReadMessage().status(), 200);
  EXPECT_EQ(slow.most_at_once(), 2);
  EXPECT_EQ(MetricOf(router, "ember_router_waiting"), 0);
}

TEST_F(QueueTest, AFullQueueIs429AndALongWait503BothWithRetryAfter) {
  RouterFixture router = Router(1, [](AdmissionOptions& o) {
    o.max_waiting = 1;
    o.max_wait = milliseconds(300);
  });
  Send(router, "served");
  ASSERT_TRUE(Eventually([&] { return slow.replica.requests() == 1; }));
  Send(router, "waits");
  ASSERT_TRUE(AwaitWaiting(router, 1));
  const WireMessage full = router.Ask(Post("{}"));
  EXPECT_EQ(full.status(), 429);
  EXPECT_GE(std::stoi(full.Field("Retry-After")), 1);
  EXPECT_THAT(full.body, HasSubstr("\"type\":\"rate_limit_error\""));
  const WireMessage late = clients[1].ReadMessage();
  EXPECT_EQ(late.status(), 503);
  EXPECT_GE(std::stoi(late.Field("Retry-After")), 1);
  EXPECT_EQ(slow.replica.requests(), 1) << "who was refused was never sent on";
}

TEST_F(QueueTest, WhoTakesTooLittleOfAReplyHoldsNoPlaceForEver) {
  FakeReplica replica([](TestSocket& peer, const WireMessage& request) {
    if (request.Field("X-Large").empty()) return (void)peer.Send(JsonReply(200, "{}"));
    peer.Send("HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n");
    while (peer.Send(std::string(1 << 20, 'x'))) {
    }
  });
  RouterFixture router({replica.origin()}, [](ServiceOptions& o) {
    o.replicas[0].max_concurrency = 1;
    o.server.write_timeout = milliseconds(500);
    o.server.min_read_rate = 100u << 20;
  });
  TestSocket slow_reader = router.Client();
  slow_reader.Send(Post("{}", "X-Large: 1\r\n"));
  ASSERT_TRUE(slow_reader.ReadUntil("\r\n\r\n"));
  std::atomic<bool> end{false};
  std::thread reader([&] {
    while (!end && !slow_reader.ReadSome().empty()) LetTimePass(milliseconds(10));
  });
  EXPECT_EQ(router.Ask(Post("{}")).status(), 200) << "it waits for that place";
  end = true;
  reader.join();
}

TEST_F(QueueTest, ReplicasThatComeAndGoDoNotShortenRetryAfter) {
  FakeReplica flapping(Answering(JsonReply(200, "{}")));
  RouterFixture router({slow.replica.origin(), flapping.origin()}, [](ServiceOptions& o) {
    o.replicas[0].max_concurrency = 1;
    o.admission.max_waiting = 2;
    o.health.probe_interval = milliseconds(5);
  });
  const auto send_to_slow = [&] {
    clients.push_back(router.Client());
    clients.back().Send(Post("{}", "x-ember-pin: r1\r\n"));
  };
  for (int i = 0; i < 3; ++i) send_to_slow();
  ASSERT_TRUE(AwaitWaiting(router, 2));
  for (int i = 0; i < 20; ++i) {
    flapping.SetHealth(503);
    ASSERT_TRUE(router.AwaitUsable(1));
    flapping.SetHealth(200);
    ASSERT_TRUE(router.AwaitUsable(2));
  }
  const auto refused = [&] { return router.Ask(Post("{}", "x-ember-pin: r1\r\n")); };
  for (int i = 0; i < 20; ++i) EXPECT_EQ(refused().status(), 429);
  EXPECT_GE(std::stoi(refused().Field("Retry-After")), 3) << "nothing has ended";
  for (size_t i = 0; i < 8; ++i) {
    slow.Answer(1);
    EXPECT_EQ(clients[i].ReadMessage().status(), 200);
    send_to_slow();
    ASSERT_TRUE(AwaitWaiting(router, 2));
  }
  EXPECT_LT(std::stoi(refused().Field("Retry-After")), 3);
}

TEST_F(QueueTest, AnotherTenantIsNotHeldBackByAFlood) {
  RouterFixture router = Router(1);
  for (int i = 0; i < 60; ++i) Send(router, "flood", "loud");
  ASSERT_TRUE(AwaitWaiting(router, 59));
  Send(router, "mine", "quiet");
  ASSERT_TRUE(AwaitWaiting(router, 60));
  slow.Answer(40);
  ASSERT_TRUE(Eventually([&] { return slow.Order().size() == 41; }));
  EXPECT_THAT(slow.Order(), testing::Contains("mine"));
}

// Only where whoever puts the header there is trusted.
TEST_F(QueueTest, TheTenantsOfOneCredentialTakeTurnsWhereTheirHeaderIsTrusted) {
  for (const bool trusted : {true, false}) {
    SlowReplica engine;
    RouterFixture router({engine.replica.origin()}, [=](ServiceOptions& o) {
      o.replicas[0].max_concurrency = 1;
      o.router.trust_tenant_header = trusted;
    });
    clients.clear();
    for (int i = 0; i < 20; ++i) Send(router, "flood", "k", 1, "x-ember-tenant: loud\r\n");
    EXPECT_TRUE(AwaitWaiting(router, 19));
    Send(router, "mine", "k", 1, "x-ember-tenant: quiet\r\n");
    EXPECT_TRUE(AwaitWaiting(router, 20));
    engine.Answer(4);
    EXPECT_TRUE(Eventually([&] { return engine.Order().size() == 5; }));
    const std::vector<std::string> order = engine.Order();
    EXPECT_EQ(std::count(order.begin(), order.end(), "mine"), trusted ? 1 : 0);
    engine.Answer(1000);
    for (TestSocket& client : clients) EXPECT_EQ(client.ReadMessage().status(), 200);
  }
}

TEST_F(QueueTest, AClientThatLeavesTheQueueIsNeverSentOn) {
  RouterFixture router = Router(1);
  Send(router, "first");
  ASSERT_TRUE(Eventually([&] { return slow.replica.requests() == 1; }));
  Send(router, "leaves");
  ASSERT_TRUE(AwaitWaiting(router, 1));
  clients.back().Close();
  ASSERT_TRUE(AwaitWaiting(router, 0));
  slow.Answer(1);
  EXPECT_EQ(clients.front().ReadMessage().status(), 200);
  slow.Answer(1);
  EXPECT_EQ(router.Ask(Post("{}", "X-Name: next\r\n")).status(), 200);
  EXPECT_THAT(slow.Order(), testing::ElementsAre("first", "next"));
}

TEST_F(QueueTest, PinnedRequestsWaitForTheirReplicaAndOthersPassThemHoweverManyTheyAre) {
  FakeReplica free(Answering(JsonReply(200, "{}")));
  RouterFixture router({slow.replica.origin(), free.origin()},
                       [](ServiceOptions& o) { o.replicas[0].max_concurrency = 1; });
  for (int i = 0; i < 40; ++i) {
    clients.push_back(router.Client());
    clients.back().Send(Post("{}", "x-ember-pin: r1\r\n"));
  }
  ASSERT_TRUE(AwaitWaiting(router, 39));
  for (int i = 0; i < 4; ++i) EXPECT_EQ(router.Ask(Post("{}")).Field("x-ember-replica"), "r2");
  slow.Answer(40);
  for (TestSocket& client : clients) {
    EXPECT_EQ(client.ReadMessage().Field("x-ember-replica"), "r1");
  }
}

// Out and back within a moment, as often as it likes.
TEST_F(QueueTest, ABlipOfTheOnlyReplicaEmptiesNoQueue) {
  RouterFixture router({slow.replica.origin()}, [](ServiceOptions& o) {
    o.replicas[0].max_concurrency = 1;
    o.health.probe_interval = milliseconds(20);
    o.health.probe_timeout = milliseconds(40);
    o.router.return_time = seconds(3600);
  });
  for (int i = 0; i < 12; ++i) Send(router, std::to_string(i));
  ASSERT_TRUE(AwaitWaiting(router, 11));
  for (const int health : {500, 0, 503, 0}) {
    slow.replica.SetHealth(health);
    ASSERT_TRUE(router.AwaitUsable(0));
    const int probes = slow.replica.probes();
    ASSERT_TRUE(Eventually([&] { return slow.replica.probes() > probes + 2; }));
    EXPECT_EQ(MetricOf(router, "ember_router_waiting"), 11);
    slow.replica.SetHealth(200);
    ASSERT_TRUE(router.AwaitUsable(1));
  }
  slow.Answer(12);
  for (TestSocket& client : clients) EXPECT_EQ(client.ReadMessage().status(), 200);
}

TEST_F(QueueTest, WhoWaitsIsToldSoonOfAReplicaThatStaysAwayAndAtOnceOfOneThatGoes) {
  for (const bool removed : {false, true}) {
    FakeReplica free(Answering(JsonReply(200, "{}")));
    RouterFixture router({slow.replica.origin(), free.origin()}, [=](ServiceOptions& o) {
      o.replicas[0].max_concurrency = 1;
      o.admission.max_wait = seconds(3600);
      o.router.return_time = removed ? seconds(3600) : milliseconds(200);
      o.health.probe_interval = milliseconds(20);
      o.admin.on_door = true;
      o.admin.token = "t";
    });
    clients.clear();
    for (int i = 0; i < 40; ++i) {
      clients.push_back(router.Client());
      clients.back().Send(Post("{}", "x-ember-pin: r1\r\n"));
    }
    ASSERT_TRUE(AwaitWaiting(router, 39));
    if (removed) {
      router.Ask(
          "DELETE /admin/replicas/r1 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer t\r\n\r\n");
    } else {
      slow.replica.SetHealth(500);
    }
    EXPECT_TRUE(AwaitWaiting(router, 0));
    slow.Answer(1);
    int refused = 0;
    for (TestSocket& client : clients) refused += client.ReadMessage().status() == 503 ? 1 : 0;
    EXPECT_EQ(refused, 39);
    slow.replica.SetHealth(200);
  }
}

TEST_F(QueueTest, ATenantThatFillsTheQueueIsPushedOutForOthers) {
  RouterFixture router = Router(1, [](AdmissionOptions& o) { o.max_waiting = 10; });
  Send(router, "served", "loud");
  ASSERT_TRUE(Eventually([&] { return slow.replica.requests() == 1; }));
  for (int i = 0; i < 10; ++i) {
    Send(router, "flood " + std::to_string(i), "loud");
    ASSERT_TRUE(AwaitWaiting(router, i + 1));
  }
  Send(router, "mine", "quiet");
  EXPECT_EQ(clients[10].ReadMessage().status(), 429) << "its newest";
  EXPECT_EQ(router.Ask(Post("{}", "Authorization: Bearer loud\r\n")).status(), 429);
  slow.Answer(11);
  EXPECT_EQ(clients[9].ReadMessage().status(), 200);
  EXPECT_EQ(clients[11].ReadMessage().status(), 200);
  EXPECT_THAT(slow.Order(), testing::Contains("mine"));
}

// Whoever makes up a credential for each request is one among those who wait, not many.
TEST_F(QueueTest, InventedCredentialsShutNobodyOut) {
  RouterFixture router = Router(1, [](AdmissionOptions& o) { o.max_waiting = 10; });
  Send(router, "known before", "mine");
  slow.Answer(1);
  ASSERT_EQ(clients.back().ReadMessage().status(), 200);
  clients.clear();
  Send(router, "invented", "invented");
  ASSERT_TRUE(Eventually([&] { return slow.replica.requests() == 2; }));
  for (int i = 0; i < 10; ++i) {
    Send(router, "invented", "invented" + std::to_string(i));
    ASSERT_TRUE(AwaitWaiting(router, i + 1));
  }
  for (int i = 0; i < 3; ++i) {
    Send(router, "mine", "mine");
    EXPECT_EQ(clients[static_cast<size_t>(10 - 2 * i)].ReadMessage().status(), 429);
    Send(router, "from elsewhere", "new", 2);
    EXPECT_EQ(clients[static_cast<size_t>(9 - 2 * i)].ReadMessage().status(), 429);
  }
  EXPECT_EQ(router.Ask(Post("{}", "Authorization: Bearer other\r\n")).status(), 429)
      << "they have as many as those";
  slow.Answer(100);
  for (size_t i = 11; i < clients.size(); ++i) EXPECT_EQ(clients[i].ReadMessage().status(), 200);
}

TEST_F(QueueTest, InventedCredentialsTakeTheTurnsOfOne) {
  RouterFixture router = Router(1);
  slow.Answer(60);
  for (int i = 0; i < 60; ++i) {  // engines serve this to everybody
    const std::string key = "Authorization: Bearer invented" + std::to_string(i) + "\r\n";
    ASSERT_EQ(router.Ask(Post("{}", key, "/tokenize")).status(), 200);
  }
  Send(router, "first", "first");
  ASSERT_TRUE(Eventually([&] { return slow.replica.requests() == 61; }));
  for (int i = 0; i < 60; ++i) Send(router, "invented", "invented" + std::to_string(i));
  ASSERT_TRUE(AwaitWaiting(router, 60));
  for (int i = 0; i < 8; ++i) Send(router, "mine", "mine", 2);
  ASSERT_TRUE(AwaitWaiting(router, 68));
  slow.Answer(40);
  ASSERT_TRUE(Eventually([&] { return slow.Order().size() == 60 + 41; }));
  const std::vector<std::string> order = slow.Order();
  EXPECT_EQ(std::count(order.begin(), order.end(), "mine"), 8);
}

}  // namespace
}  // namespace ember::router
