// Tokens, index and policies together, through the door: where requests land and what is said of
// it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "tests/unit/router/router_fixture.h"

namespace ember::router {
namespace {

using http::WireMessage;
using testing::HasSubstr;
using testing::Not;

constexpr uint32_t kBlockTokens = 16;

NamespaceId Ns() {
  NamespaceId id;
  id.bytes.fill(std::byte{7});
  return id;
}

// A prompt of `tokens` tokens whose chain is numbered by `seed`.
TokenizedPrompt Prompt(uint8_t seed, uint32_t tokens) {
  TokenizedPrompt prompt{.token_count = tokens, .ns = Ns(), .chain = {}};
  for (uint32_t i = 0; i < tokens / kBlockTokens; ++i) {
    BlockHash h;
    h.bytes[0] = std::byte{seed};
    std::memcpy(&h.bytes[4], &i, sizeof i);
    prompt.chain.push_back(h);
  }
  return prompt;
}

AgentSnapshot Snapshot(const std::string& id, std::vector<HeldChain> held, double load_rate = 0) {
  return {.replica_id = id,
          .ns = Ns(),
          .tokens_per_block = kBlockTokens,
          .held = std::move(held),
          .report = {.healthy = true,
                     .load = {.slots_total = 2},
                     .prefill = {.linear_ms = 5},
                     .load_tokens_per_ms = load_rate},
          .model = "m"};
}

class Routing : public testing::Test {
 protected:
  Routing() {
    router.agents.answer = [](ReplicaNumber, std::string_view body) -> Result<TokenizedPrompt> {
      // {"seed":N}: prompt N
      return Prompt(static_cast<uint8_t>(body[8] - '0'), 1000);
    };
  }
  void Feed(ReplicaNumber n, AgentSnapshot snapshot) {
    router.OnLoop([&] { router.service->feed().OnSnapshot(n, std::move(snapshot)); });
  }
  std::string Where(int seed, std::string_view headers = "") {
    last = router.Ask(Post("{\"seed\":" + std::to_string(seed) + "}", headers));
    return last.Field("x-ember-replica");
  }

  FakeReplica one{Answering(JsonReply(200, "{}", "x-ember-route: local\r\n"))};
  FakeReplica two{Answering(JsonReply(200, "{}", "x-ember-route: recompute\r\n"))};
  RouterFixture router{{one.origin(), two.origin()}, [](ServiceOptions& o) {
                         o.router.default_policy = FindPolicy("cache_aware");
                       }};
  WireMessage last;
};

TEST_F(Routing, GoesWhereThePrefixIs) {
  Feed(0, Snapshot("r1", {{0, Prompt(1, 960).chain}}));
  Feed(1, Snapshot("r2", {{0, Prompt(2, 960).chain}}));
  EXPECT_EQ(Where(1), "r1");
  EXPECT_EQ(last.Field("x-ember-policy"), "cache_aware");
  EXPECT_NEAR(std::stod(last.Field("x-ember-predicted-ttft-ms")), 40 * 5.0, 0.01);
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(Where(1), "r1");
    EXPECT_EQ(Where(2), "r2");
  }
}

TEST_F(Routing, ADecisionMakesTheReplicaWarmBeforeItsAgentSaysSo) {
  Feed(0, Snapshot("r1", {}));
  Feed(1, Snapshot("r2", {}));
  const std::string first = Where(3);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(Where(3), first);
  EXPECT_EQ(Where(3, "x-ember-policy: prefix\r\n"), first);
}

TEST_F(Routing, AReplicaWhoseAgentIsLostHoldsNothing) {
  Feed(0, Snapshot("r1", {{0, Prompt(1, 960).chain}}));
  Feed(1, Snapshot("r2", {}));
  EXPECT_EQ(Where(1), "r1");
  router.OnLoop([&] {
    router.service->feed().OnLost(0, UnavailableError("gone"));
    router.service->feed().OnHeld(1, {0, Prompt(1, 960).chain});
  });
  EXPECT_EQ(Where(1), "r2");
  EXPECT_FALSE(router.Status().replicas[0].agent_connected);
  EXPECT_EQ(router.Status().replicas[0].blocks_held, 0u);
}

TEST_F(Routing, AnUnhealthyReportTakesTheReplicaOut) {
  Feed(0, Snapshot("r1", {{0, Prompt(1, 960).chain}}));
  Feed(1, Snapshot("r2", {}));
  router.OnLoop([&] { router.service->feed().OnReport(0, {.healthy = false}); });
  EXPECT_EQ(Where(1), "r2");
}

TEST_F(Routing, HeadersThatSwitchCachesOffSwitchOffTheirMatches) {
  Feed(0, Snapshot("r1", {{0, Prompt(1, 960).chain}}, 10));
  Feed(1, Snapshot("r2", {}, 10));
  const auto candidate = [&](std::string_view headers) {
    EXPECT_NE(Where(1, headers), "");
    return router.Page("/admin/explain?id=" + last.Field("x-ember-request-id"));
  };
  EXPECT_THAT(candidate(""), HasSubstr("\"local_tokens\":960"));
  EXPECT_THAT(candidate(""), HasSubstr("\"remote_tokens\":960"));
  EXPECT_THAT(candidate("x-ember-store: off\r\n"), Not(HasSubstr("\"remote_tokens\":960")));
  EXPECT_THAT(candidate("x-ember-cache: off\r\n"), Not(HasSubstr("_tokens\":960")));
}

TEST_F(Routing, AReplyThatBeliesTheStoreCorrectsTheIndex) {
  // It counts on 960 stored tokens and gets none: its replies say recompute, 0 cached.
  FakeReplica poor(
      Answering(JsonReply(200, "{}", "x-ember-route: recompute\r\nx-ember-cached-tokens: 0\r\n")));
  RouterFixture alone({poor.origin()}, [](ServiceOptions& o) {
    o.router.default_policy = FindPolicy("cache_aware");
  });
  alone.agents.answer = router.agents.answer;
  alone.OnLoop([&] {
    alone.service->feed().OnSnapshot(0, Snapshot("r1", {{0, Prompt(1, 960).chain}}, 10));
    alone.service->feed().OnHeld(0, {0, {}});
  });
  const auto store_tokens = [&] {
    alone.Ask(Post("{\"seed\":1}"));
    alone.OnLoop([&] { alone.service->feed().OnHeld(0, {0, {}}); });
    return alone.Page("/admin/explain?n=1");
  };
  EXPECT_THAT(store_tokens(), HasSubstr("\"store_tokens\":960"));
  EXPECT_THAT(store_tokens(), HasSubstr("\"store_tokens\":0"));
}

// One replica, before whose requests the store is thought to have their whole prefix.
class Hints : public Routing {
 protected:
  Hints() {
    alone.agents.answer = router.agents.answer;
    alone.agents.on_hint = [this] { arrived_before = replica.requests(); };
    alone.OnLoop([&] { alone.service->feed().OnSnapshot(0, Snapshot("r1", {}, 10)); });
    ForgetSlots();
  }
  // The replica had it all and has lost it.
  void ForgetSlots() {
    alone.OnLoop([&] {
      alone.service->feed().OnHeld(0, {0, Prompt(1, 960).chain});
      alone.service->feed().OnHeld(0, {0, {}});
    });
  }
  void Ask(std::string_view headers = "", int seed = 1) {
    const WireMessage reply = alone.Ask(Post("{\"seed\":" + std::to_string(seed) + "}", headers));
    EXPECT_EQ(reply.status(), 200);
  }
  size_t Given() {
    size_t n = 0;
    alone.OnLoop([&] { n = alone.agents.hints.size(); });
    return n;
  }
  std::string Counter(const char* outcome) {
    return "ember_router_prefetches_total{outcome=\"" + std::string(outcome) + "\"} ";
  }

  FakeReplica replica{Answering(JsonReply(200, "{}", "x-ember-route: remote\r\n"))};
  RouterFixture alone{{replica.origin()}, [](ServiceOptions& o) {
                        o.router.default_policy = FindPolicy("cache_aware");
                      }};
  int arrived_before = -1;
};

TEST_F(Hints, OneIsGivenBeforeARequestThatWillLoadAndNoneBeforeOthers) {
  Ask("", 2);
  EXPECT_EQ(Given(), 0u) << "nobody has it";
  Ask("x-ember-store: off\r\n");
  ForgetSlots();
  Ask("x-ember-cache: off\r\n");
  ForgetSlots();
  Ask("x-ember-policy: round_robin\r\n");
  ForgetSlots();
  EXPECT_EQ(Given(), 0u);
  const int before = replica.requests();
  Ask();
  ASSERT_EQ(Given(), 1u);
  EXPECT_EQ(arrived_before, before) << "the request came first";
  const auto& [number, hint] = alone.agents.hints.front();
  EXPECT_EQ(number, 0u);
  EXPECT_EQ(hint.path, "/v1/chat/completions");
  EXPECT_EQ(hint.body, "{\"seed\":1}");
  EXPECT_EQ(hint.wanted, 960u);
  Ask();
  EXPECT_EQ(Given(), 1u) << "it is local now";
  EXPECT_THAT(alone.Page("/metrics"), HasSubstr(Counter("accepted") + "1"));
}

TEST_F(Hints, TokensThatAreKnownAreGivenInsteadOfTheBody) {
  TokenizedPrompt prompt{.token_count = 1000, .ns = Ns()};
  for (TokenId t = 0; t < 1000; ++t) prompt.tokens.push_back(t);
  BlockChain chain = prompt.ChainIn({.id = Ns(), .seed = 0, .tokens_per_block = kBlockTokens});
  chain.resize(60);
  alone.agents.answer = [&](ReplicaNumber, std::string_view) -> Result<TokenizedPrompt> {
    return prompt;
  };
  alone.OnLoop([&] {
    alone.service->feed().OnHeld(0, {0, chain});
    alone.service->feed().OnHeld(0, {0, {}});
  });
  Ask();
  ASSERT_EQ(Given(), 1u);
  const PrefetchHint& hint = alone.agents.hints.front().second;
  EXPECT_EQ(hint.body, "");
  ASSERT_EQ(hint.tokens.size(), 960u);
  EXPECT_EQ(hint.tokens.back(), 959);
}

TEST_F(Hints, AnAgentThatDoesNotAnswerDelaysNothingAndGetsNoMore) {
  alone.agents.silent = true;
  for (int i = 0; i < 10; ++i) {
    Ask();
    ForgetSlots();
  }
  EXPECT_EQ(Given(), 8u);
  EXPECT_THAT(alone.Page("/metrics"), HasSubstr(Counter("dropped") + "2"));
}

TEST_F(Routing, TokensAreAskedForOnceABodyAndOnlyByPoliciesThatUseThem) {
  Feed(0, Snapshot("r1", {}));
  for (const char* policy : {"random", "round_robin", "least_loaded", "sticky"}) {
    Where(1, "x-ember-policy: " + std::string(policy) + "\r\n");
  }
  EXPECT_EQ(router.agents.asked, 0);
  for (int i = 0; i < 3; ++i) Where(1);
  EXPECT_EQ(router.agents.asked, 1);
  Where(2);
  EXPECT_EQ(router.agents.asked, 2);
  // Another identity: the chains that were computed before name nothing any more.
  AgentSnapshot other = Snapshot("r1", {});
  other.ns->bytes.fill(std::byte{8});
  Feed(0, other);
  Where(2);
  EXPECT_EQ(router.agents.asked, 3);
}

TEST_F(Routing, WithoutTokensTheRequestIsServedByLoadAndTheReasonIsCounted) {
  std::atomic<StatusCode> code{StatusCode::kUnavailable};
  router.agents.answer = [&](ReplicaNumber, std::string_view) -> Result<TokenizedPrompt> {
    return Status(code.load(), "no");
  };
  EXPECT_NE(Where(1), "");
  EXPECT_EQ(last.status(), 200);
  EXPECT_EQ(router.agents.asked, 2) << "the other agent is asked too";
  EXPECT_THAT(router.Page("/admin/explain?n=1"), HasSubstr("no_tokens: least load"));
  code = StatusCode::kDeadline;
  Where(1);
  EXPECT_EQ(router.agents.asked, 3) << "the time is used up";
  const std::string metrics = router.Page("/metrics");
  EXPECT_THAT(metrics, HasSubstr("tokenize_failures_total{reason=\"unavailable\"} 1"));
  EXPECT_THAT(metrics, HasSubstr("tokenize_failures_total{reason=\"deadline\"} 1"));
}

TEST(ModelPolicies, AModelsRequestsGoByItsOwnPolicy) {
  FakeReplica one{Answering(JsonReply(200, "{}"))};
  RouterFixture router{{one.origin()}, [](ServiceOptions& o) {
                         o.router.model_policies["m"] = FindPolicy("least_loaded");
                       }};
  EXPECT_EQ(router.Ask(Post(R"({"model":"m"})")).Field("x-ember-policy"), "least_loaded");
  EXPECT_EQ(router.Ask(Post(R"({"model":"other"})")).Field("x-ember-policy"), "round_robin");
  EXPECT_EQ(
      router.Ask(Post(R"({"model":"m"})", "x-ember-policy: random\r\n")).Field("x-ember-policy"),
      "random");
}

TEST_F(Routing, StickyKeepsAConversationAndTheSeedsSwitchMakesItRandom) {
  std::set<std::string> homes, strays;
  for (int i = 0; i < 24; ++i) {
    const std::string conversation = "X-Conversation-Id: c" + std::to_string(i % 8) + "\r\n";
    const auto ask = [&](const char* target) {
      return router.Ask(Post("{\"seed\":1}", conversation, target)).Field("x-ember-replica");
    };
    homes.insert(std::to_string(i % 8) + ask("/v1/chat/completions?sticky=1"));
    strays.insert(std::to_string(i % 8) + ask("/v1/chat/completions?sticky=0"));
  }
  EXPECT_EQ(homes.size(), 8u) << "eight conversations, one home each";
  EXPECT_GT(strays.size(), 8u);
}

TEST_F(Routing, StatusExplainAndMetricsSayWhatHappened) {
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
  EXPECT_EQ(status.replicas[0].blocks_held, 62u) << "960 / 16 reported, and the rest presumed";
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

TEST_F(Routing, ARequestIsExplainedWithoutBeingSent) {
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
  EXPECT_EQ(router.Status().replicas[0].blocks_held, 60u) << "nothing is presumed of it";
  EXPECT_THAT(router.Page("/admin/explain"), HasSubstr(R"("requests":[])"));
  EXPECT_THAT(router.Page("/metrics"), Not(HasSubstr("ember_router_requests_total{")));

  router.OnLoop([&] { router.service->feed().OnReport(1, {.healthy = false}); });
  EXPECT_THAT(explain("").body, HasSubstr(R"("excluded":[{"replica":"r2","state":")"));
  router.agents.answer = [](ReplicaNumber, std::string_view) -> Result<TokenizedPrompt> {
    return UnavailableError("no");
  };
  EXPECT_THAT(router.Ask(Post(R"({"seed":2})", "", "/admin/explain")).body,
              HasSubstr(R"("tokens":"unavailable)"));
  EXPECT_EQ(explain("x-ember-policy: nope\r\n").status(), 400);
  EXPECT_EQ(explain("", "/admin/explain?path=/v1/models").status(), 400);
  EXPECT_EQ(router.Ask(Post("[]", "", "/admin/explain")).status(), 400);
}

TEST_F(Routing, TheLivePageIsToldOnlyWhatIsNew) {
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

TEST_F(Routing, ThePageLoadsNothingFromElsewhere) {
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
