// Tokens, index and policies together, through the door: where requests land.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "tests/unit/router/routing_fixture.h"

namespace ember::router {
namespace {

using http::WireMessage;
using testing::HasSubstr;
using testing::Not;

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

int HeldAtFirst(const RouterFixture& router, const std::string& body) {
  const std::string table = router.Ask(Post(body, "", "/admin/explain?path=/v1/completions")).body;
  const size_t at = table.find("\"device_tokens\":");
  return at == table.npos ? -1 : std::atoi(table.c_str() + at + 16);
}

const std::string kLongCompletion = "{\"prompt\":\"" + std::string(8000, 'a') + "\"}";

// What a replica refused, or broke over, it has not computed: retries are not to be drawn there.
TEST(RoutingFailed, WhatCameToNothingIsPresumedNowhere) {
  const auto held_after = [&](const std::string& bytes) {
    FakeReplica replica([&](http::TestSocket& peer, const WireMessage&) {
      peer.Send(bytes);
      peer.Close();
    });
    RouterFixture router({replica.origin()}, [](ServiceOptions& o) {
      o.router.default_policy = FindPolicy("cache_aware");
    });
    router.Ask(Post(kLongCompletion, "", "/v1/completions"));
    return HeldAtFirst(router, kLongCompletion);
  };
  EXPECT_GT(held_after(JsonReply(200, "{}")), 1900);
  for (const int status : {400, 401, 404, 413, 422, 429, 500, 503}) {
    EXPECT_EQ(held_after(JsonReply(status, "{}")), 0) << status;
  }
  const std::string head =
      "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
  EXPECT_EQ(held_after(head), 0);
  EXPECT_GT(held_after(head + "b\r\ndata: {}\n\n\r\n"), 1900) << "some was streamed";
}

TEST(RoutingFailed, CountsOfAnErrorBelieNothing) {
  std::atomic<int> status{200};
  FakeReplica replica([&](http::TestSocket& peer, const WireMessage&) {
    peer.Send(JsonReply(
        status, R"({"usage":{"prompt_tokens":2000,"prompt_tokens_details":{"cached_tokens":0}}})"));
  });
  RouterFixture router({replica.origin()}, [](ServiceOptions& o) {
    o.router.default_policy = FindPolicy("cache_aware");
  });
  const std::string older = "{\"prompt\":\"" + std::string(8000, 'b') + "\"}";
  router.Ask(Post(older, "", "/v1/completions"));
  router.Ask(Post(kLongCompletion, "", "/v1/completions"));
  for (const int error : {400, 500}) {
    status = error;
    EXPECT_EQ(router.Ask(Post(kLongCompletion, "", "/v1/completions")).status(), error);
    EXPECT_GT(HeldAtFirst(router, older), 1900) << error;
  }
}

// Nor do several prompts, of which engines begin to answer the first while they compute the others.
TEST(RoutingFailed, ErrorsAndBatchesTeachNoSpeed) {
  std::atomic<bool> fails{false}, several{false};
  FakeReplica replica([&](http::TestSocket& peer, const WireMessage&) {
    constexpr std::string_view kUsage =
        R"({"usage":{"prompt_tokens":2000,"prompt_tokens_details":{"cached_tokens":0}}})";
    if (fails) return (void)peer.Send(JsonReply(400, kUsage));
    if (!several) LetTimePass(milliseconds(60));
    peer.Send(StreamReply("data: " + std::string(kUsage) + "\n\n"));
  });
  RouterFixture router({replica.origin()}, [](ServiceOptions& o) {
    o.router.default_policy = FindPolicy("cache_aware");
  });
  char text = 'a';
  const auto predicted = [&] {
    const std::string prompt = "\"" + std::string(8000, text++) + "\"";  // nobody has it
    const std::string body = "{\"prompt\":" + (several ? "[" + prompt + ",\"x\"]" : prompt) + "}";
    return std::atof(
        router.Ask(Post(body, "", "/v1/completions")).Field("x-ember-predicted-ttft-ms").c_str());
  };
  for (int i = 0; i < 5; ++i) predicted();
  EXPECT_GT(predicted(), 50);
  for (std::atomic<bool>* mode : {&fails, &several}) {
    *mode = true;
    for (int i = 0; i < 8; ++i) predicted();
    *mode = false;
    EXPECT_GT(predicted(), 50) << (mode == &fails ? "errors" : "batches");
  }
}

TEST(RoutingFailed, WhatAClientDidNotWaitForMayHaveBeenComputed) {
  http::Signal ready;
  FakeReplica replica([&](http::TestSocket& peer, const WireMessage&) {
    ready.Set();
    peer.AwaitClose();
  });
  RouterFixture router({replica.origin()}, [](ServiceOptions& o) {
    o.router.default_policy = FindPolicy("cache_aware");
  });
  http::TestSocket client = router.Client();
  client.Send(Post(kLongCompletion, "", "/v1/completions"));
  ASSERT_TRUE(ready.Await());
  client.Close();
  ASSERT_TRUE(http::Eventually([&] { return router.Status().replicas[0].under_way == 0; }));
  EXPECT_GT(HeldAtFirst(router, kLongCompletion), 1900);
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
  EXPECT_EQ(router.Status().replicas[0].held.any, 0u);
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

}  // namespace
}  // namespace ember::router
