// What the router tells of itself: status, explanations, the live page.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/router/routing_fixture.h"

namespace ember::router {
namespace {

using http::WireMessage;
using testing::HasSubstr;
using testing::Not;

class PagesTest : public Routing {};

TEST_F(PagesTest, StatusExplainAndMetricsSayWhatHappened) {
  Feed(0, Snapshot("r1", {{0, Prompt(1, 960).chain}}));
  Feed(1, Snapshot("r2", {}));
  EXPECT_EQ(Where(1, "x-ember-request-id: find-me\r\n"), "r1");
  const std::string explain = router.Page("/admin/explain?id=find-me");
  EXPECT_THAT(explain, HasSubstr("\"request_id\":\"find-me\","));
  EXPECT_THAT(
      explain,
      HasSubstr("\"route\":\"local\",\"status\":200,\"outcome\":\"done\",\"prompt_tokens\":1000"));
  EXPECT_THAT(explain, HasSubstr("\"reason\":\"lowest_cost: 200.0 ms"));
  EXPECT_THAT(
      explain,
      HasSubstr("{\"replica\":\"r2\",\"device_tokens\":0,\"any_tier_tokens\":0,\"queue_ms\":0,"));
  const StatusReport status = router.Status();
  EXPECT_EQ(status.replicas[0].totals.routed_local, 1u);
  EXPECT_EQ(status.replicas[0].held.any, 62u) << "960 / 16 reported, and the rest presumed";
  EXPECT_EQ(status.default_policy, "cache_aware");
  const std::string page = router.Page("/admin/status");
  EXPECT_THAT(page, HasSubstr("\"id\":\"r1\""));
  EXPECT_THAT(page, HasSubstr("\"model\":\"m\""));
  const std::string metrics = router.Page("/metrics");
  EXPECT_THAT(
      metrics,
      HasSubstr(
          "ember_router_requests_total{policy=\"cache_aware\",route=\"local\",status=\"200\"} 1"));
  EXPECT_THAT(metrics, HasSubstr("ember_router_replica_up{replica=\"r2\"} 1"));
  EXPECT_THAT(metrics, HasSubstr("ember_router_index_blocks 62"));
}

TEST_F(PagesTest, ARequestIsExplainedWithoutBeingSent) {
  Feed(0, Snapshot("r1", {{0, Prompt(1, 960).chain}}));
  Feed(1, Snapshot("r2", {}));
  const auto explain = [&](std::string_view headers, std::string_view target = "/admin/explain") {
    return router.Ask(Post(R"({"seed":1})", headers, target));
  };
  for (const char* policy : {"cache_aware", "random", "round_robin"}) {
    const WireMessage reply = explain("x-ember-policy: " + std::string(policy) + "\r\n");
    EXPECT_EQ(reply.status(), 200);
    EXPECT_THAT(reply.body, HasSubstr("\"policy\":\"" + std::string(policy) + "\""));
    EXPECT_THAT(reply.body, HasSubstr(R"("outcome":"not sent","prompt_tokens":1000)"));
    EXPECT_THAT(reply.body, HasSubstr(R"({"replica":"r1","device_tokens":960,)")) << policy;
    EXPECT_THAT(reply.body, HasSubstr(R"({"replica":"r2","device_tokens":0,)")) << policy;
    EXPECT_THAT(reply.body, HasSubstr(R"("excluded":[])"));
  }
  EXPECT_EQ(router.Status().replicas[0].totals.requests, 0u);
  EXPECT_EQ(router.Status().replicas[0].held.any, 60u) << "nothing is presumed of it";
  EXPECT_THAT(router.Page("/admin/explain"), HasSubstr(R"("requests":[])"));
  EXPECT_THAT(router.Page("/metrics"), Not(HasSubstr("ember_router_requests_total{")));

  router.OnLoop([&] { router.service->feed().OnReport(1, {.healthy = false}); });
  EXPECT_THAT(explain("").body, HasSubstr(R"("excluded":[{"replica":"r2","state":")"));
  router.agents.answer = [](ReplicaNumber, std::string_view) -> Result<TokenizedPrompt> {
    return UnavailableError("no");
  };
  EXPECT_THAT(router.Ask(Post(R"({"seed":2})", "", "/admin/explain")).body,
              HasSubstr(R"("tokens":"unavailable)"));
  router.agents.answer = nullptr;
  EXPECT_THAT(router.Ask(Post(R"({"seed":3})", "", "/admin/explain")).body,
              HasSubstr("there is no --tokenizer, no replica has an agent, and the text of bodies "
                        "under 1024 bytes is not used"));
  EXPECT_EQ(explain("x-ember-policy: nope\r\n").status(), 400);
  EXPECT_EQ(explain("", "/admin/explain?path=/v1/models").status(), 400);
  EXPECT_EQ(router.Ask(Post("[]", "", "/admin/explain")).status(), 400);
}

TEST_F(PagesTest, TheReplicasThemselvesSayWhatTheyHold) {
  Feed(0, Snapshot("r1", {{0, Prompt(1, 960).chain}}, 10));
  Feed(1, Snapshot("r2", {}, 10));
  const auto verify = [&] {
    return router.Ask(
        Post(R"({"seed":1})", "x-ember-policy: random\r\n", "/admin/explain?verify=1"));
  };
  router.agents.held = [](ReplicaNumber n, const BlockChain& chain) -> Result<LongestPrefix> {
    EXPECT_EQ(chain, Prompt(1, 1000).chain);
    if (n == 1) return UnavailableError("it is gone");
    return LongestPrefix{.local_blocks = 10, .store_blocks = 3};
  };
  EXPECT_THAT(verify().body,
              HasSubstr(R"("verified":[{"replica":"r1","told_tokens":960,"told_store_tokens":960,)"
                        R"("held_tokens":160,"store_tokens":48},{"replica":"r2","told_tokens":0,)"
                        R"("told_store_tokens":960,"why":"unavailable: it is gone"}])"));
  const std::string metrics = router.Page("/metrics");
  EXPECT_THAT(metrics, HasSubstr("ember_router_verified_prefixes_total{outcome=\"less\"} 1"));
  EXPECT_THAT(metrics,
              HasSubstr("ember_router_verified_prefixes_total{outcome=\"unavailable\"} 1"));
  EXPECT_EQ(router.Status().replicas[0].held.any, 60u) << "the index is left alone";

  // A replica whose blocks the router names itself can't be asked.
  router.OnLoop([&] { router.service->feed().OnLost(1, UnavailableError("lost")); });
  EXPECT_THAT(verify().body, HasSubstr(R"("why":"it has no agent that can be asked"}])"));
  EXPECT_THAT(router.Ask(Post(R"({"seed":1})", "", "/admin/explain")).body,
              Not(HasSubstr("\"verified\"")));

  // Agents that do not answer hold up neither requests nor more than a few who ask.
  router.OnLoop([&] { router.agents.silent = true; });
  const int before = router.agents.prefixes_asked;
  std::vector<http::TestSocket> waiting;
  for (int i = 0; i < 4; ++i) {
    waiting.push_back(router.Client());
    waiting.back().Send(Post(R"({"seed":1})", "", "/admin/explain?verify=1"));
  }
  ASSERT_TRUE(http::Eventually([&] { return router.agents.prefixes_asked == before + 4; }));
  EXPECT_EQ(verify().status(), 503);
  EXPECT_EQ(Where(1), "r1");
  router.OnLoop([&] { router.agents.end_of_silence.Cancel(); });
  for (http::TestSocket& client : waiting) {
    EXPECT_THAT(client.ReadMessage().body, HasSubstr(R"("why":"deadline: it said nothing")"));
  }
}

// The ids by which answers can be asked for, what failed where, and what others had cached.
TEST(Pages, WhoComesFromOutsideLearnsNothingOfOthersRequests) {
  FakeReplica one(Answering(JsonReply(200, "{}")));
  RouterFixture router({one.origin()}, [](ServiceOptions& o) {
    o.admin.listen = http::Origin{"127.0.0.1", 0};
    o.admin.explain_on_door = o.admin.live_on_door = false;
  });
  router.Ask(Post("{}", "x-ember-request-id: of-another\r\n", "/v1/responses"));
  router.Ask(Get("/v1/responses/resp_of_another"));
  const auto ask = [](uint16_t port, const std::string& request) {
    http::TestSocket client = http::TestSocket::ConnectTo(port);
    client.Send(request);
    return client.ReadMessage();
  };
  for (const char* page :
       {"/ui", "/ui/app.js", "/admin/status", "/admin/live", "/admin/live?after=0",
        "/admin/explain", "/admin/explain?id=of-another"}) {
    const WireMessage outside = ask(router.service->port(), Get(page));
    EXPECT_NE(outside.status(), 200) << page;
    EXPECT_EQ(ask(router.service->admin_port(), Get(page)).status() / 100, 2) << page;
  }
  for (const char* path :
       {"/metrics", "/health", "/healthz", "/admin", "/admin/", "/", "/admin/replicas",
        "/admin//live", "/admin/%6cive", "/v1/../admin/live", "//admin/live", "/admin/live/",
        "/ADMIN/LIVE", "/admin/live;a", "http://a/admin/live"}) {
    const WireMessage outside = ask(router.service->port(), Get(path));
    for (const char* secret : {"of-another", "of_another", "127.0.0.1"}) {
      EXPECT_THAT(outside.head + outside.body, Not(HasSubstr(secret))) << path;
    }
  }
}

// It tells whoever asks how much of any prompt is cached.
TEST(Pages, ExplainIsForWhoHasTheTokenOrComesToItsAddress) {
  FakeReplica one(Answering(JsonReply(200, "{}")));
  RouterFixture apart({one.origin()}, [](ServiceOptions& o) {
    o.admin.listen = http::Origin{"127.0.0.1", 0};
    o.admin.explain_on_door = false;
  });
  RouterFixture guarded({one.origin()}, [](ServiceOptions& o) {
    o.admin.listen = http::Origin{"127.0.0.1", 0};
    o.admin.token = "t0ken";
  });
  for (const bool post : {false, true}) {
    const auto status = [post](uint16_t port, const std::string& headers) {
      http::TestSocket client = http::TestSocket::ConnectTo(port);
      client.Send(post ? Post(R"({"prompt":"x"})", headers, "/admin/explain")
                       : "GET /admin/explain HTTP/1.1\r\nHost: a\r\n" + headers + "\r\n");
      const WireMessage reply = client.ReadMessage();
      EXPECT_EQ(reply.status() == 200, reply.body.find("\"request") != std::string::npos);
      return reply.status();
    };
    EXPECT_EQ(status(apart.service->port(), ""), 403) << post;
    EXPECT_EQ(status(apart.service->admin_port(), ""), 200) << post;
    for (const uint16_t port : {guarded.service->port(), guarded.service->admin_port()}) {
      EXPECT_EQ(status(port, ""), 401) << post;
      EXPECT_EQ(status(port, "Authorization: Bearer guess\r\n"), 401) << post;
      EXPECT_EQ(status(port, "Authorization: Bearer t0ken\r\n"), 200) << post;
    }
  }
  EXPECT_EQ(guarded.Ask(Get("/admin/live")).status(), 200);
  EXPECT_THAT(apart.Page("/admin/explain"), HasSubstr("at the address of --admin"));
  RouterFixture nowhere({one.origin()}, [](ServiceOptions& o) { o.admin.explain_on_door = false; });
  EXPECT_THAT(nowhere.Page("/admin/explain"),
              HasSubstr("give the router one for it, like --admin="));
}

// Where others reach the only address, the page and what it asks for are for the token.
TEST(Pages, AllAreBesideV1ForWhoBearsTheToken) {
  FakeReplica one(Answering(JsonReply(200, "{}")));
  RouterFixture router({one.origin()}, [](ServiceOptions& o) {
    o.admin.on_door = true;
    o.admin.token = "t0ken";
    o.admin.live_on_door = false;
  });
  router.Ask(Post("{}", "x-ember-request-id: of-another\r\n"));
  for (const char* page : {"/admin/status", "/admin/live", "/admin/explain?id=of-another"}) {
    const auto ask = [&](const std::string& headers) {
      return router.Ask("GET " + std::string(page) + " HTTP/1.1\r\nHost: a\r\n" + headers + "\r\n");
    };
    for (const char* headers : {"", "Authorization: Bearer guess\r\n"}) {
      const WireMessage refused = ask(headers);
      EXPECT_EQ(refused.status(), 401) << page;
      EXPECT_EQ(refused.Field("WWW-Authenticate"), "Bearer");
      EXPECT_THAT(refused.body, Not(HasSubstr("replicas")));
    }
    EXPECT_EQ(ask("Authorization: Bearer t0ken\r\n").status(), 200) << page;
  }
  for (const char* file : {"/ui", "/ui/app.js"}) {
    EXPECT_EQ(router.Ask(Get(file)).status(), 200) << "it asks for the token itself";
  }
}

TEST_F(PagesTest, TheLivePageIsToldOnlyWhatIsNew) {
  Feed(0, Snapshot("r1", {{0, Prompt(1, 960).chain}}));
  Feed(1, Snapshot("r2", {}));
  Where(1, "x-ember-request-id: first\r\n");
  Where(1, "x-ember-request-id: second\r\n");
  const std::string all = router.Page("/admin/live");
  EXPECT_THAT(all, HasSubstr(R"("finished":2)"));
  EXPECT_THAT(all, HasSubstr(R"("request_id":"first")"));
  EXPECT_THAT(all, HasSubstr(R"("replicas":[{"id":"r1")"));
  const std::string news = router.Page("/admin/live?after=1");
  EXPECT_THAT(news, HasSubstr(R"("request_id":"second")"));
  EXPECT_THAT(news, Not(HasSubstr("first")));
  EXPECT_THAT(router.Page("/admin/live?after=2"), HasSubstr(R"("requests":[])"));
}

TEST_F(PagesTest, AQuestionThatMakesNoSenseIsNotAnswered) {
  Feed(0, Snapshot("r1", {}));
  Feed(1, Snapshot("r2", {}));
  Where(1, "x-ember-request-id: known\r\n");
  const auto status = [&](std::string_view target) { return router.Ask(Get(target)).status(); };
  EXPECT_EQ(status("/admin/explain?id=known&n=1"), 200);
  EXPECT_EQ(status("/admin/explain?id=unknown"), 404);
  EXPECT_EQ(status("/admin/live?after=0"), 200);
  for (const char* target : {"/admin/explain?n=x", "/admin/explain?n=", "/admin/explain?n=-1",
                             "/admin/live?after=1x", "/admin/live?after=99999999999999999999"}) {
    EXPECT_EQ(status(target), 400) << target;
  }
}

TEST_F(PagesTest, ThePageLoadsNothingFromElsewhere) {
  const WireMessage page = router.Ask(Get("/ui"));
  EXPECT_EQ(page.status(), 200);
  EXPECT_EQ(page.Field("Content-Type"), "text/html; charset=utf-8");
  EXPECT_THAT(page.Field("Content-Security-Policy"), HasSubstr("default-src 'none'"));
  EXPECT_THAT(page.Field("Content-Security-Policy"), Not(HasSubstr("unsafe")));
  for (const char* file :
       {"/ui", "/ui/app.js", "/ui/app.css", "/ui/charts.js", "/ui/dom.js", "/ui/views.js"}) {
    const WireMessage reply = router.Ask(Get(file));
    EXPECT_EQ(reply.status(), 200) << file;
    EXPECT_GT(reply.body.size(), 100u) << file;
    EXPECT_THAT(reply.body, Not(HasSubstr("//cdn"))) << file;
  }
  EXPECT_EQ(router.Ask(Get("/ui/../metrics")).status(), 404);
  EXPECT_EQ(router.Ask(Post("{}", "", "/ui")).status(), 405);
}

}  // namespace
}  // namespace ember::router
