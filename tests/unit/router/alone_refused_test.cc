// Replicas that refuse what others take, and clients whose requests all refuse.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/router/models_fixture.h"

namespace ember::router {
namespace {

using http::Eventually;
using http::TestSocket;
using http::WireMessage;
using testing::HasSubstr;
using testing::Not;

constexpr int kRequests = 40;

std::string Prompt(int i) {
  return "{\"messages\":[{\"role\":\"user\",\"content\":\"" + std::to_string(i) + "\"}]}";
}

TEST(AloneRefused, AReplicaThatRefusesAtOnceDrawsNothing) {
  for (const int status : {401, 403, 404, 429}) {
    for (const char* policy : {"cache_aware", "least_loaded", "round_robin", "power_of_two"}) {
      SCOPED_TRACE(std::to_string(status) + " " + policy);
      FakeReplica good(Answering(JsonReply(200, "{}")));
      FakeReplica bad(Answering(JsonReply(status, "{\"error\":{}}")));
      RouterFixture router({good.origin(), bad.origin()});
      const std::string header = "x-ember-policy: " + std::string(policy) + "\r\n";
      for (int i = 0; i < kRequests; ++i) {
        EXPECT_EQ(router.Ask(Post(Prompt(i), header)).status(), 200);
      }
      EXPECT_LE(bad.requests(), kRequests / 4);
      EXPECT_GE(good.requests(), kRequests);
      const std::string metrics = router.Page("/metrics");
      EXPECT_THAT(metrics, HasSubstr("ember_router_replica_refusals_total{replica=\"r1\"} 0\n"));
      EXPECT_THAT(metrics, Not(testing::ContainsRegex("ejections_total[^\n]* [1-9]")));
      EXPECT_EQ(router.Ask(Post("{}", "x-ember-pin: r2\r\n")).status(), status)
          << "who wants that one gets its word";
    }
  }
}

TEST(AloneRefused, AReplicaThatIsMendedGetsItsShareAgain) {
  std::atomic<int> status{401};
  FakeReplica good(Answering(JsonReply(200, "{}")));
  FakeReplica bad(AnsweringStatus(status));
  RouterFixture router({good.origin(), bad.origin()});
  for (int i = 0; i < kRequests; ++i) EXPECT_EQ(router.Ask(Post("{}")).status(), 200);
  EXPECT_THAT(router.Page("/metrics"),
              testing::ContainsRegex("replica_refusals_total.replica=\"r2\". [1-9]"));
  status = 200;
  ASSERT_TRUE(Eventually([&] { return router.Ask(Post("{}")).Field("x-ember-replica") == "r2"; }));
  const int before = bad.requests();
  for (int i = 0; i < 10; ++i) router.Ask(Post("{}"));
  EXPECT_EQ(bad.requests(), before + 5);
  status = 401;
  for (int i = 0; i < 2; ++i) EXPECT_EQ(router.Ask(Post("{}")).status(), 200);
  status = 200;
  for (int i = 0; i < 10; ++i) router.Ask(Post("{}"));
  EXPECT_EQ(bad.requests(), before + 5 + 1 + 5) << "a single refusal of one that takes others";
}

std::string Bearing(const std::string& key) { return "Authorization: Bearer " + key + "\r\n"; }

// A limit or a key is one client's, a path is one of several.
TEST(AloneRefused, WhatIsOneClientsOrOnePathsIsNoMatterOfOthers) {
  const std::string mine = Bearing("mine"), responses = "/v1/responses";
  const std::tuple<int, std::string, std::string> cases[] = {
      // status, what tells it, the request
      {401, "Bearer mine", Post("{}", mine)},
      {403, "Bearer mine", Post("{}", mine)},
      {429, "Bearer mine", Post("{}", mine)},
      {404, responses, Post("{}", mine, responses)}};
  for (const auto& [status, told_by, refused] : cases) {
    SCOPED_TRACE(status);
    FakeReplica good(Answering(JsonReply(200, "{}")));
    FakeReplica picky([&](TestSocket& peer, const WireMessage& request) {
      const bool refuses = request.head.find(told_by) != std::string::npos;
      peer.Send(JsonReply(refuses ? status : 200, "{}"));
    });
    RouterFixture router({good.origin(), picky.origin()});
    for (int i = 0; i < kRequests; ++i) EXPECT_EQ(router.Ask(refused).status(), 200);
    const int before = picky.requests();
    EXPECT_LE(before, kRequests / 4);
    const std::string other = Bearing(status == 404 ? "mine" : "other");
    for (int i = 0; i < 10; ++i) EXPECT_EQ(router.Ask(Post("{}", other)).status(), 200);
    EXPECT_EQ(picky.requests(), before + 5);
    EXPECT_EQ(router.Ask(refused).status(), 200);
    EXPECT_EQ(picky.requests(), before + 5) << "what it took of others says nothing of these";
  }
}

TEST(AloneRefused, AReplicaThatRefusesEveryClientDrawsNothing) {
  for (const int status : {401, 403, 429}) {
    SCOPED_TRACE(status);
    FakeReplica good(Answering(JsonReply(200, "{}")));
    FakeReplica bad(Answering(JsonReply(status, "{}")));
    RouterFixture router({good.origin(), bad.origin()});
    for (int i = 0; i < kRequests; ++i) {
      EXPECT_EQ(router.Ask(Post("{}", Bearing(std::to_string(i)))).status(), 200);
    }
    EXPECT_LE(bad.requests(), kRequests / 4);
  }
}

// One that finds everything wrong, and at once, looks idle.
TEST(AloneRefused, AReplicaThatAloneFindsAllWrongDrawsNothing) {
  for (const int status : {400, 422}) {
    for (const char* policy : {"cache_aware", "least_loaded", "round_robin"}) {
      SCOPED_TRACE(std::to_string(status) + " " + policy);
      FakeReplica good(Answering(JsonReply(200, "{}")));
      FakeReplica bad(Answering(JsonReply(status, "{}")));
      RouterFixture router({good.origin(), bad.origin()});
      const std::string header = "x-ember-policy: " + std::string(policy) + "\r\n";
      int wrong = 0;
      for (int i = 0; i < 2 * kRequests; ++i) {
        wrong += router.Ask(Post(Prompt(i), header)).status() == status ? 1 : 0;
      }
      EXPECT_LE(wrong, 3) << "so many are believed";
      EXPECT_LE(bad.requests(), kRequests / 4);
      EXPECT_THAT(router.Page("/metrics"),
                  Not(testing::ContainsRegex("ejections_total[^\n]* [1-9]")));
    }
  }
}

TEST(AloneRefused, AFullReplicaDoesNotUseUpTheTryThatARefusalHas) {
  FakeReplica full(Answering(JsonReply(429, "{}")));
  FakeReplica locked(Answering(JsonReply(401, "{}")));
  FakeReplica good(Answering(JsonReply(200, "{}")));
  RouterFixture router({full.origin(), locked.origin(), good.origin()});
  for (int i = 0; i < kRequests; ++i) EXPECT_EQ(router.Ask(Post("{}")).status(), 200);
  const std::string metrics = router.Page("/metrics");
  for (const char* id : {"r1", "r2"}) {
    EXPECT_THAT(metrics, testing::ContainsRegex("replica_refusals_total.replica=\"" +
                                                std::string(id) + "\". [1-9]"));
  }
}

// D26: what every replica says to a client is the client's doing.
TEST(AloneRefused, WhatAllRefuseIsPassedOnAndShiftsNothing) {
  for (const int status : {400, 401, 403, 404, 413, 422, 429}) {
    SCOPED_TRACE(status);
    const auto script = [&](TestSocket& peer, const WireMessage& request) {
      const bool bad = request.body.find("bad") != std::string::npos;
      peer.Send(bad ? JsonReply(status, "{\"own\":1}", "Retry-After: 7\r\n")
                    : JsonReply(200, "{}"));
    };
    FakeReplica one(script), two(script), three(script);
    RouterFixture router({one.origin(), two.origin(), three.origin()});
    const auto asked = [&] { return one.requests() + two.requests() + three.requests(); };
    for (int i = 0; i < kRequests; ++i) {
      const WireMessage reply = router.Ask(Post("{\"bad\":1}"));
      EXPECT_EQ(reply.status(), status);
      EXPECT_EQ(reply.body, "{\"own\":1}");
      EXPECT_EQ(reply.Field("retry-after"), "7");
    }
    const bool for_good = status == 400 || status == 413 || status == 422;
    const int each = for_good ? 1 : status == 429 ? 3 : 2;  // all may be full, few have other keys
    EXPECT_EQ(asked(), each * kRequests);
    EXPECT_EQ(router.Ask(Post("{\"bad\":1}", "", "/tokenize")).status(), status);
    EXPECT_EQ(asked(), each * kRequests + (status == 429 ? 3 : 1)) << "no prompt, no second asked";
    const int before_one = one.requests(), before_two = two.requests();
    for (int i = 0; i < 12; ++i) EXPECT_EQ(router.Ask(Post("{}")).status(), 200);
    EXPECT_EQ(one.requests() - before_one, 4);
    EXPECT_EQ(two.requests() - before_two, 4);
    EXPECT_THAT(router.Page("/metrics"), Not(testing::ContainsRegex("refusals_total[^\n]* [1-9]")));
  }
}

// What is the client's fault is no success either.
TEST(AloneRefused, WhatIsWrongHidesNoBrokenReplica) {
  std::atomic<int> asked{0};
  FakeReplica bad([&](TestSocket& peer, const WireMessage&) {
    peer.Send(JsonReply(asked++ % 2 == 0 ? 500 : 400, "{}"));
  });
  FakeReplica good(Answering(JsonReply(200, "{}")));
  RouterFixture router({bad.origin(), good.origin()});
  for (int i = 0; i < kRequests; ++i) router.Ask(Post(Prompt(i), "x-ember-pin: r1\r\n"));
  EXPECT_LT(asked, kRequests);
  EXPECT_THAT(router.Page("/metrics"),
              testing::ContainsRegex("_ejections_total.replica=\"r1\",reason=\"server_error\". 1"));
}

// Nor is its list asked for with each of its refusals: an engine may have no such path.
TEST(AloneRefused, AnEngineThatKnowsNoneOfWhatItListsIsNotAskedEachTime) {
  std::atomic<int> asked{0};
  FakeReplica replica([&](TestSocket& peer, const WireMessage& request) {
    if (!request.head.starts_with("GET /v1/models ")) return (void)peer.Send(JsonReply(404, "{}"));
    ++asked;
    peer.Send(JsonReply(200, R"({"object":"list","data":[{"id":"base"}]})"));
  });
  RouterFixture router({replica.origin()},
                       [](ServiceOptions& o) { o.models_interval = seconds(3600); });
  ASSERT_TRUE(AwaitModels(router, {{"base"}}));
  const TimePoint begun = SteadyClock().Now();
  for (int i = 0; i < kRequests; ++i) EXPECT_EQ(router.Ask(Post(Body("base"))).status(), 404);
  const double seconds_passed = ToMilliseconds(SteadyClock().Now() - begun) / 1000;
  EXPECT_LE(asked, 4 + static_cast<int>(seconds_passed));
}

// A replica lost an adapter that it had listed, between two questions.
TEST(AloneRefused, AModelThatIsGoneAtOneReplicaIsServedByTheOtherAndListedAnew) {
  std::atomic<bool> gone{false};
  FakeReplica lost([&](TestSocket& peer, const WireMessage& request) {
    const bool unknown = gone && request.body.find("ad3") != std::string::npos;
    peer.Send(JsonReply(unknown ? 404 : 200, "{}"));
  });
  FakeReplica has(Answering(JsonReply(200, "{}")));
  lost.SetModels({"base", "ad3"});
  has.SetModels({"base", "ad3"});
  RouterFixture router({lost.origin(), has.origin()}, [](ServiceOptions& o) {
    AskingForModels(o);
    o.models_interval = seconds(3600);
  });
  ASSERT_TRUE(AwaitModels(router, {{"base", "ad3"}, {"base", "ad3"}}));
  gone = true;
  lost.SetModels({"base"});
  const auto listed_anew = [&] {
    EXPECT_EQ(router.Ask(Post(Body("ad3"))).status(), 200);
    return router.Status().replicas.front().models->size() == 1;
  };
  EXPECT_TRUE(Eventually(listed_anew)) << "its list is asked for long before the interval is over";
}

}  // namespace
}  // namespace ember::router
