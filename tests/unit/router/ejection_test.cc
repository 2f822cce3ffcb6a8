// Replicas that die, hang, fail and come back: who is sent requests meanwhile and afterwards
// (D14, D19, D26, D31, A7).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "tests/unit/router/router_fixture.h"

namespace ember::router {
namespace {

using http::Eventually;
using http::Signal;
using http::TestSocket;
using http::WireMessage;
using testing::HasSubstr;

std::string StateOf(const RouterFixture& router, size_t n) {
  return router.Status().replicas[n].state;
}

bool AwaitState(const RouterFixture& router, size_t n, const std::string& state) {
  return Eventually([&] { return StateOf(router, n) == state; });
}

TEST(ClientErrors, AThousandOfEachPutNobodyOut) {  // D26
  std::atomic<int> status{400};
  FakeReplica replica(AnsweringStatus(status));
  FakeReplica other(Answering(JsonReply(200, "{}")));
  RouterFixture router({replica.origin(), other.origin()});
  TestSocket client = router.Client();
  for (const int s : {400, 401, 404, 422, 429}) {
    status = s;
    for (int i = 0; i < 1000; ++i) {
      client.Send(Post("{}", "x-ember-pin: r1\r\nX-Trace: 7\r\n"));
      ASSERT_EQ(client.ReadMessage().status(), s);
    }
    EXPECT_EQ(StateOf(router, 0), "up") << s;
  }
  EXPECT_EQ(replica.Request(0).Field("X-Trace"), "7");
  EXPECT_EQ(replica.requests(), 5000) << "nor was one of them tried again";
}

TEST(Ejection, ABurstOf5xxPutsAReplicaOutAndAFewGoodRepliesBringItBack) {
  std::atomic<int> status{500};
  FakeReplica bad(AnsweringStatus(status));
  FakeReplica good(Answering(JsonReply(200, "{}")));
  RouterFixture router({bad.origin(), good.origin()}, [](ServiceOptions& o) {
    o.health.first_hold = milliseconds(50);
    o.health.probe_interval = milliseconds(20);
  });
  int failed = 0;
  while (StateOf(router, 0) == "up") failed += router.Ask(Post("{}")).status() == 500 ? 1 : 0;
  EXPECT_LE(failed, 6);
  const int before = bad.requests();
  for (int i = 0; i < 4; ++i) EXPECT_EQ(router.Ask(Post("{}")).Field("x-ember-replica"), "r2");
  EXPECT_LE(bad.requests(), before + 1) << "at most a trial";
  status = 200;
  ASSERT_TRUE(Eventually(
      [&] { return router.Ask(Post("{}")).status() == 200 && StateOf(router, 0) == "up"; }));
  EXPECT_THAT(
      router.Page("/metrics"),
      testing::ContainsRegex("_ejections_total[{]replica=\"r1\",reason=\"server_error\"} [1-9]"));
}

TEST(Ejection, WhoSays503SpeaksOfItselfThoughOthersSaySoOfTheSameRequest) {
  FakeReplica one(Answering(JsonReply(503, "{}"))), two(Answering(JsonReply(503, "{}"))),
      good(Answering(JsonReply(200, "{}"))), better(Answering(JsonReply(200, "{}")));
  RouterFixture router({one.origin(), two.origin(), good.origin(), better.origin()});
  for (int i = 0; i < 40; ++i) {
    for (const char* pin : {"r1", "r2"}) {
      router.Ask(Post("{\"n\":1}", "x-ember-pin: " + std::string(pin) + "\r\n"));
    }
    EXPECT_EQ(router.Ask(Post("{\"n\":2}")).status(), 200);
  }
  const std::string metrics = router.Page("/metrics");
  for (const char* id : {"r1", "r2"}) {
    EXPECT_THAT(metrics, testing::ContainsRegex("_ejections_total[{]replica=\"" + std::string(id) +
                                                "\",reason=\"server_error\"} [1-9]"));
  }
}

TEST(Ejection, RepliesThatAreNoHttpAre502AndPutAReplicaOut) {
  for (const std::string& reply :
       {std::string("220 smtp.example ESMTP\r\n\r\n"),
        "HTTP/1.1 200 OK\r\nX: " + std::string(100 << 10, 'x') + "\r\n\r\n",
        std::string("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n")}) {
    FakeReplica bad(Answering(reply));
    FakeReplica good(Answering(JsonReply(200, "{}")));
    RouterFixture router({bad.origin(), good.origin()});
    EXPECT_EQ(router.Ask(Post("{}", "x-ember-pin: r1\r\n")).status(), 502);
    for (int i = 0; i < 5; ++i) router.Ask(Post("{}", "x-ember-pin: r1\r\n"));
    EXPECT_EQ(StateOf(router, 0), "ejected");
    EXPECT_EQ(router.Ask(Post("{}")).status(), 200);
  }
}

TEST(Hung, AReplicaThatAcceptsAndNeverAnswersIsPutOutAndItsRequestsGoElsewhere) {  // D19
  Signal end;
  FakeReplica hung([&](TestSocket&, const WireMessage&) { end.Await(); });
  FakeReplica two(Answering(JsonReply(200, "{}"))), three(Answering(JsonReply(200, "{}"))),
      four(Answering(JsonReply(200, "{}")));
  RouterFixture router({hung.origin(), two.origin(), three.origin(), four.origin()},
                       [](ServiceOptions& o) {
                         o.health.probe_interval = milliseconds(20);
                         o.health.probe_timeout = milliseconds(100);
                       });
  hung.SetHealth(0);
  std::atomic<int> answered{0};
  std::vector<std::thread> clients;
  for (int c = 0; c < 10; ++c) {
    clients.emplace_back([&] {
      TestSocket client = router.Client();
      for (int i = 0; i < 50; ++i) {
        client.Send(Post("{}"));
        if (client.ReadMessage().status() == 200) answered.fetch_add(1);
      }
    });
  }
  for (std::thread& c : clients) c.join();
  EXPECT_EQ(answered, 500) << "those that hung there were answered by others";
  EXPECT_GE(hung.requests(), 1);
  EXPECT_LT(hung.requests(), 50);
  EXPECT_EQ(StateOf(router, 0), "ejected");
  const std::string metrics = router.Page("/metrics");
  EXPECT_THAT(metrics,
              testing::ContainsRegex("ember_router_retries_total[{]reason=\"hung\"} [1-9]"));
  EXPECT_THAT(metrics, HasSubstr("{replica=\"r1\",reason=\"hung\"} 1"));
  end.Set();
}

TEST(Hung, WithAllItsConnectionsUsedUpItIsStillFoundHung) {
  Signal end;
  FakeReplica hung([&](TestSocket&, const WireMessage&) { end.Await(); });
  FakeReplica other(Answering(JsonReply(200, "{}")));
  RouterFixture router({hung.origin(), other.origin()}, [](ServiceOptions& o) {
    o.health.probe_interval = milliseconds(20);
    o.health.probe_timeout = milliseconds(50);
    o.upstream.max_connections_per_origin = 1;
  });
  TestSocket client = router.Client();
  client.Send(Post("{}", "x-ember-pin: r1\r\n"));
  ASSERT_TRUE(Eventually([&] { return hung.requests() == 1; }));
  hung.SetHealth(0);
  EXPECT_TRUE(AwaitState(router, 0, "ejected"));
  end.Set();
}

TEST(Hung, WhenNobodyElseIsThereItsRequestsGoOnWaiting) {
  Signal end;
  FakeReplica slow([&](TestSocket& peer, const WireMessage&) {
    end.Await();
    peer.Send(JsonReply(200, "{}"));
  });
  RouterFixture router({slow.origin()}, [](ServiceOptions& o) {
    o.health.probe_interval = milliseconds(20);
    o.health.probe_timeout = milliseconds(50);
  });
  TestSocket client = router.Client();
  client.Send(Post("{}"));
  ASSERT_TRUE(Eventually([&] { return slow.requests() == 1; }));
  slow.SetHealth(0);
  ASSERT_TRUE(AwaitState(router, 0, "ejected"));
  end.Set();
  EXPECT_EQ(client.ReadMessage().status(), 200);
}

TEST(Hung, ARequestThatMayGoNowhereElseIsNotTakenFromIt) {
  Signal end;
  FakeReplica slow([&](TestSocket& peer, const WireMessage&) {
    end.Await();
    peer.Send(JsonReply(200, "{}"));
  });
  FakeReplica other(Answering(JsonReply(200, "{}")));
  RouterFixture router({slow.origin(), other.origin()}, [](ServiceOptions& o) {
    o.health.probe_interval = milliseconds(20);
    o.health.probe_timeout = milliseconds(50);
  });
  TestSocket client = router.Client();
  client.Send(Post("{}", "x-ember-pin: r1\r\n"));
  ASSERT_TRUE(Eventually([&] { return slow.requests() == 1; }));
  slow.SetHealth(0);
  ASSERT_TRUE(AwaitState(router, 0, "ejected"));
  end.Set();
  EXPECT_EQ(client.ReadMessage().status(), 200);
}

TEST(Dying, BeforeTheFirstByteAnotherAnswersAndAfterwardsTheClientIsTold) {  // D14
  for (const int events : {0, 1, 50}) {
    for (const bool half : {false, true}) {
      FakeReplica dying([&](TestSocket& peer, const WireMessage&) {
        std::string sent =
            "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: "
            "chunked\r\n\r\n";
        for (int i = 0; i < events; ++i) sent += "9\r\ndata: 1\n\n\r\n";
        if (half) sent += "5\r\ndata:\r\n";
        peer.Send(sent);
        peer.Reset();
      });
      FakeReplica other(Answering(StreamReply("data: 2\n\ndata: [DONE]\n\n")));
      RouterFixture router({dying.origin(), other.origin()});
      const WireMessage reply = router.Ask(Post("{\"stream\":true}"));
      EXPECT_EQ(reply.status(), 200);
      EXPECT_TRUE(reply.complete);
      EXPECT_THAT(reply.body, testing::EndsWith("data: [DONE]\n\n"));
      const bool told = reply.body.find("data: {\"error\":{") != std::string::npos;
      const bool another = reply.body.find("data: 2\n\n") != std::string::npos;
      EXPECT_NE(told, another) << events << half;
      if (told) {
        EXPECT_THAT(router.Page("/metrics"), HasSubstr("ember_router_failed_midway_total 1"));
      }
      if (events == 0 && !half) EXPECT_TRUE(another);
    }
  }
}

TEST(Poison, ARequestThatBreaksReplicasIsLeftAloneHoweverOftenItsClientTries) {  // D31
  std::atomic<int> broken{0};
  FakeFleet fleet(6, ResettingAt("poison", &broken));
  RouterFixture router(fleet.origins(), NoKeptConnections);
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(router.Ask(Post("{\"prompt\":\"poison\"}")).status(), 502);
    EXPECT_LE(broken, i == 0 ? 2 : 3) << "two in one request, one more when it comes again";
    EXPECT_EQ(router.Ask(Post("{\"prompt\":\"other\"}")).status(), 200);
  }
  const WireMessage refused = router.Ask(Post("{\"prompt\":\"poison\"}"));
  EXPECT_THAT(refused.body, HasSubstr("breaks_replicas"));
  EXPECT_GE(std::stoi(refused.Field("Retry-After")), 1);
  EXPECT_LE(std::stoi(refused.Field("Retry-After")), 30) << "when it is tried again";
}

// D31, P6: at once and one by one, the same body and others, 5xx and resets.
TEST(Poison, WhatFailsAtEveryReplicaPutsNoneOfThemOut) {
  for (const bool resets : {false, true}) {
    FakeFleet fleet(4, [&](TestSocket& peer, const WireMessage& r) {
      if (r.body.find("poison") == r.body.npos) return (void)peer.Send(JsonReply(200, "{}"));
      if (resets) return peer.Reset();
      peer.Send(JsonReply(500, "{}"));
    });
    RouterFixture router(fleet.origins(), NoKeptConnections);
    for (const int kinds : {1, 1000}) {
      for (int i = 0; i < 64; ++i) {
        const std::string poison =
            "{\"prompt\":\"poison\",\"n\":" + std::to_string(i % kinds) + "}";
        std::vector<TestSocket> clients;
        for (int c = 0; c < 4; ++c) {
          clients.push_back(router.Client());
          clients.back().Send(Post(poison));
        }
        for (TestSocket& client : clients)
          EXPECT_EQ(client.ReadMessage().status(), resets ? 502 : 500);
        if (i % 8 == 0) EXPECT_EQ(router.Ask(Post("{\"prompt\":\"good\"}")).status(), 200);
      }
    }
    for (const ReplicaReport& r : router.Status().replicas) {
      EXPECT_EQ(r.state, "up") << r.why_unhealthy << resets;
    }
  }
}

TEST(Ejection, WhatOneReplicaFailedAtIsTriedElsewhereWhenItComesAgain) {
  FakeReplica bad(Answering(JsonReply(500, "{}"))), good(Answering(JsonReply(200, "{}")));
  RouterFixture router({bad.origin(), good.origin()});
  for (int i = 0; i < 3; ++i) {
    const std::string body = "{\"n\":1,\"turn\":" + std::to_string(i) + "}";
    EXPECT_EQ(router.Ask(Post(body, "x-ember-pin: r1\r\n")).status(), 500);
    if (i == 0) EXPECT_EQ(router.Ask(Post(body, "x-ember-pin: r1\r\n")).status(), 500);
    EXPECT_EQ(router.Ask(Post(body, "x-ember-policy: round_robin\r\n")).status(), 200);
  }
}

TEST(Ejection, WhereARequestFailedIsAskedAgainWhenThereIsNobodyElse) {
  FakeReplica bad(Answering(JsonReply(500, "{}")));
  auto dying = std::make_unique<FakeReplica>(Answering(JsonReply(200, "{}")));
  RouterFixture router({bad.origin(), dying->origin()},
                       [](ServiceOptions& o) { o.health.probe_interval = seconds(3600); });
  EXPECT_EQ(router.Ask(Post("{\"n\":1}", "x-ember-pin: r1\r\n")).status(), 500);
  dying.reset();
  EXPECT_EQ(router.Ask(Post("{\"n\":1}", "x-ember-policy: round_robin\r\n")).status(), 500);
  EXPECT_EQ(bad.requests(), 2);
}

TEST(Poison, ARequestWhoseStreamsTakeTheirEnginesWithThemIsLeftAloneToo) {
  std::vector<std::unique_ptr<http::FakeUpstream>> engines;
  std::vector<http::Origin> origins;
  for (size_t i = 0; i < 4; ++i) {
    engines.push_back(std::make_unique<http::FakeUpstream>([&engines, i](TestSocket& peer) {
      if (!peer.ReadMessage().head.starts_with("POST ")) {
        peer.Send(JsonReply(200, "{}"));
        return;
      }
      peer.Send(kStreamBegun);
      engines[i]->StopListening();
    }));
    origins.push_back(engines.back()->origin());
  }
  RouterFixture router(origins, NoKeptConnections);
  TestSocket client = router.Client();
  for (size_t i = 0; i < 3; ++i) {
    client.Send(Post("{\"stream\":true}", "x-ember-pin: r" + std::to_string(i + 1) + "\r\n"));
    EXPECT_EQ(client.ReadMessage().status(), 200);
    EXPECT_TRUE(AwaitState(router, i, "ejected"));
  }
  client.Send(Post("{\"stream\":true}", "x-ember-pin: r4\r\n"));
  EXPECT_THAT(client.ReadMessage().body, HasSubstr("breaks_replicas"));
}

TEST(Poison, AStreamThatBreaksOffAtALivingEngineIsNothingAgainstItsRequest) {
  FakeReplica cut([](TestSocket& peer, const WireMessage&) {
    peer.Send(kStreamBegun);
    peer.Close();
  });
  RouterFixture router({cut.origin()});
  TestSocket client = router.Client();
  for (int i = 0; i < 6; ++i) {
    client.Send(Post("{\"stream\":true}"));
    EXPECT_EQ(client.ReadMessage().status(), 200);
  }
}

TEST(Poison, ANeighbourOfTheGuiltyOneIsServedWhenItComesAgain) {
  std::atomic<int> left{2};
  const auto script = [&](TestSocket& peer, const WireMessage&) {
    if (left.fetch_sub(1) > 0) return peer.Reset();
    peer.Send(JsonReply(200, "{}"));
  };
  FakeReplica one(script), two(script);
  RouterFixture router({one.origin(), two.origin()}, NoKeptConnections);
  EXPECT_EQ(router.Ask(Post("{\"n\":1}")).status(), 502);
  EXPECT_EQ(router.Ask(Post("{\"n\":1}")).status(), 200);
  left = 1;
  EXPECT_EQ(router.Ask(Post("{\"n\":1}")).status(), 200) << "its record is clean again";
}

TEST(Back, AReplicaThatWasKilledGetsItsShareAgainWithinSecondsAndNothingFails) {
  auto first = std::make_unique<FakeReplica>(Answering(JsonReply(200, "{}")));
  FakeReplica two(Answering(JsonReply(200, "{}"))), three(Answering(JsonReply(200, "{}"))),
      four(Answering(JsonReply(200, "{}")));
  RouterFixture router({first->origin(), two.origin(), three.origin(), four.origin()});
  std::atomic<bool> stop{false};
  std::atomic<int> failed{0}, answered{0}, by_first{0};
  std::vector<std::thread> load;
  for (int i = 0; i < 3; ++i) {
    load.emplace_back([&] {
      TestSocket client = router.Client();
      while (!stop) {
        client.Send(Post("{}"));
        const WireMessage reply = client.ReadMessage();
        if (reply.status() != 200) failed.fetch_add(1);
        if (reply.Field("x-ember-replica") == "r1") by_first.fetch_add(1);
        answered.fetch_add(1);
      }
    });
  }
  ASSERT_TRUE(Eventually([&] { return by_first > 100; }));
  const uint16_t port = first->origin().port;
  first.reset();
  ASSERT_TRUE(AwaitState(router, 0, "ejected"));
  FakeReplica back(Answering(JsonReply(200, "{}")), port);
  const auto from = std::chrono::steady_clock::now();
  ASSERT_TRUE(Eventually([&] { return back.requests() > 0; }));
  EXPECT_LT(std::chrono::steady_clock::now() - from, seconds(4));
  ASSERT_TRUE(AwaitState(router, 0, "up"));
  by_first = answered = 0;
  ASSERT_TRUE(Eventually([&] { return answered > 1000; }));
  EXPECT_GE(by_first * 100, answered * 15) << by_first << " of " << answered;
  stop = true;
  for (std::thread& t : load) t.join();
  EXPECT_EQ(failed, 0);
}

}  // namespace
}  // namespace ember::router
