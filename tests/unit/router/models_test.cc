// A fleet of several models: who is sent a request, and what is said where nobody serves it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "tests/unit/router/models_fixture.h"

namespace ember::router {
namespace {

using http::Eventually;
using http::TestSocket;
using http::WireMessage;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

// The replicas that were sent `n` requests for the model, and how many each; by status where none
// was.
std::map<std::string, int> Served(const RouterFixture& router, const std::string& model, int n = 6,
                                  const std::string& headers = "") {
  std::map<std::string, int> served;
  for (int i = 0; i < n; ++i) {
    const WireMessage reply =
        router.Ask(Post(model.empty() ? "{\"messages\":[]}" : Body(model), headers));
    const std::string replica = reply.Field("x-ember-replica");
    ++served[reply.status() == 200 ? replica : std::to_string(reply.status())];
  }
  return served;
}

class Models : public testing::Test {
 protected:
  std::vector<http::Origin> Three() const { return {one.origin(), two.origin(), three.origin()}; }
  FakeReplica one{Answering(JsonReply(200, "{}"))};
  FakeReplica two{Answering(JsonReply(200, "{}"))};
  FakeReplica three{Answering(JsonReply(200, "{}"))};
};

TEST_F(Models, ARequestGoesToReplicasThatServeItsModel) {
  RouterFixture router(Three(), Declaring({{"a"}, {"a", "alias"}, {"b"}}));
  EXPECT_THAT(Served(router, "a"), ElementsAre(Pair("r1", 3), Pair("r2", 3)));
  EXPECT_THAT(Served(router, "b"), ElementsAre(Pair("r3", 6)));
  EXPECT_THAT(Served(router, "alias"), ElementsAre(Pair("r2", 6)));
  EXPECT_THAT(Served(router, ""), ElementsAre(Pair("r1", 2), Pair("r2", 2), Pair("r3", 2)))
      << "who names none may go anywhere";
  for (const char* policy :
       {"random", "least_loaded", "power_of_two", "sticky", "prefix", "cache_aware"}) {
    EXPECT_THAT(Served(router, "b", 4, "x-ember-policy: " + std::string(policy) + "\r\n"),
                ElementsAre(Pair("r3", 4)))
        << policy;
  }
}

// Each model's requests take turns of their own.
TEST_F(Models, TurnsOfOneModelSkipNoReplicaOfAnother) {
  RouterFixture router(Three(), Declaring({{"a"}, {"a"}, {"b"}}));
  std::map<std::string, int> served;
  for (int i = 0; i < 6; ++i) {
    for (const char* model : {"a", "b"}) {
      for (const auto& [replica, n] : Served(router, model, 1)) served[replica] += n;
    }
  }
  EXPECT_THAT(served, ElementsAre(Pair("r1", 3), Pair("r2", 3), Pair("r3", 6)));
}

TEST_F(Models, TheModelIsFoundInEveryKindOfBody) {
  RouterFixture router(Three(), Declaring({{"a"}, {"b"}, {"c"}}));
  const std::string long_text(200'000, 'x');
  const std::pair<const char*, std::string> requests[] = {
      {"/v1/chat/completions",
       R"({"messages":[{"role":"user","content":")" + long_text + R"("}],"model":"b"})"},
      {"/v1/completions", R"({"prompt":")" + long_text + R"(","model":"b"})"},
      {"/v1/embeddings", R"({"input":[")" + long_text + R"("],"model":"b"})"},
      {"/v1/rerank", R"({"model":"b","query":"{\"model\":\"a\"}"})"},
      {"/v1/messages", R"({"model":"b","max_tokens":1,"messages":[]})"},
      {"/v1/responses", R"({"input":"hello","model":"b"})"}};
  for (const char* policy : {"round_robin", "cache_aware"}) {
    const std::string header = "x-ember-policy: " + std::string(policy) + "\r\n";
    for (const auto& [path, body] : requests) {
      EXPECT_EQ(router.Ask(Post(body, header, path)).Field("x-ember-replica"), "r2")
          << path << " " << policy;
    }
  }
  const std::string form =
      "--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.wav\"\r\n\r\nRIFF\r\n"
      "--x\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nb\r\n--x--\r\n";
  const WireMessage audio = router.Ask(
      "POST /v1/audio/transcriptions HTTP/1.1\r\nHost: a\r\nContent-Type: multipart/form-data; "
      "boundary=x\r\nContent-Length: " +
      std::to_string(form.size()) + "\r\n\r\n" + form);
  EXPECT_EQ(audio.Field("x-ember-replica"), "r2");
}

TEST_F(Models, AModelThatNobodyServesIs404AndSaysWhichThereAre) {
  RouterFixture router({one.origin(), two.origin()}, Declaring({{"a"}, {"b", "c"}}));
  const WireMessage reply = router.Ask(Post(Body("gpt\\n\\\"4")));
  EXPECT_EQ(reply.status(), 404);
  EXPECT_THAT(reply.body, HasSubstr(R"("code":"model_not_found")"));
  EXPECT_THAT(reply.body, HasSubstr(R"(gpt\n\"4)"));
  EXPECT_THAT(reply.body, HasSubstr("there are: a, b, c"));
  const WireMessage anthropic = router.Ask(Post(Body("x"), "", "/v1/messages"));
  EXPECT_EQ(anthropic.status(), 404);
  EXPECT_THAT(anthropic.body, HasSubstr(R"("type":"not_found_error")"));
  EXPECT_EQ(one.requests() + two.requests(), 0);
}

TEST_F(Models, AReplicaOfWhichNothingIsKnownTakesAnyModel) {
  RouterFixture router({one.origin(), two.origin()}, [](ServiceOptions& o) {
    Declaring({{"a"}})(o);
    AskingForModels(o);  // r2 answers {}
  });
  ASSERT_TRUE(Eventually([&] { return two.requests() > 1; })) << "it is asked, and again";
  EXPECT_THAT(Served(router, "b"), ElementsAre(Pair("r2", 6)));
  EXPECT_THAT(Served(router, "a"), ElementsAre(Pair("r1", 3), Pair("r2", 3)));
}

TEST_F(Models, WhatEnginesListIsLearnedAndLearnedAnew) {
  one.SetModels({"a"});
  two.SetModels({"b"});
  three.SetModels({"b"});
  RouterFixture router(Three(), AskingForModels);
  ASSERT_TRUE(AwaitModels(router, {{"a"}, {"b"}, {"b"}}));
  EXPECT_THAT(Served(router, "a"), ElementsAre(Pair("r1", 6)));
  EXPECT_THAT(Served(router, "b"), ElementsAre(Pair("r2", 3), Pair("r3", 3)));
  EXPECT_THAT(Served(router, "law"), ElementsAre(Pair("404", 6)));
  two.SetModelsText(R"({"data":[{"id":"b"},{"id":"law","parent":"b"}]})");
  ASSERT_TRUE(AwaitModels(router, {{"a"}, {"b", "law"}, {"b"}}));
  EXPECT_THAT(Served(router, "law"), ElementsAre(Pair("r2", 6)));
  EXPECT_EQ(one.requests(), 6);
  EXPECT_THAT(router.Page("/metrics"),
              HasSubstr("ember_router_model_requests_total{model=\"law\"} 6\n"));
}

// "Too many requests" is no word on models; neither is a server that is out of order.
TEST_F(Models, AListThatIsNotToBeHadNowChangesNothing) {
  std::atomic<int> status{200}, asked{0};
  FakeReplica busy([&](http::TestSocket& peer, const WireMessage& request) {
    if (!request.head.starts_with("GET /v1/models ")) return (void)peer.Send(JsonReply(200, "{}"));
    asked.fetch_add(1);
    peer.Send(JsonReply(status.load(), R"({"data":[{"id":"a"}]})"));
  });
  RouterFixture router({busy.origin(), one.origin()}, [](ServiceOptions& o) {
    Declaring({{}, {"b"}})(o);
    AskingForModels(o);
  });
  ASSERT_TRUE(AwaitModels(router, {{"a"}, {"b"}}));
  for (const int refusal : {429, 408, 503}) {
    status = refusal;
    const int before = asked.load();
    ASSERT_TRUE(Eventually([&] { return asked.load() >= before + 3; }));
    EXPECT_TRUE(AwaitModels(router, {{"a"}, {"b"}})) << refusal;
    EXPECT_THAT(Served(router, "a", 1), ElementsAre(Pair("r1", 1))) << refusal;
    EXPECT_THAT(Served(router, "x", 1), ElementsAre(Pair("404", 1))) << refusal;
  }
  status = 404;
  EXPECT_TRUE(AwaitModels(router, {{}, {"b"}})) << "it lists none";
}

// A replica that was put out may come back as another model's.
TEST_F(Models, AReplicaThatComesBackIsAskedAtOnce) {
  one.SetModels({"a"});
  RouterFixture router({one.origin(), two.origin()}, [](ServiceOptions& o) {
    Declaring({{}, {"z"}})(o);
    o.models_interval = seconds(3600);
    o.health.probe_interval = milliseconds(10);
  });
  ASSERT_TRUE(AwaitModels(router, {{"a"}, {"z"}}));
  one.SetHealth(500);
  ASSERT_TRUE(router.AwaitUsable(1));
  EXPECT_THAT(Served(router, "a", 1), ElementsAre(Pair("503", 1))) << "it exists, and is away";
  one.SetModels({"b"});
  one.SetHealth(200);
  ASSERT_TRUE(AwaitModels(router, {{"b"}, {"z"}}));
  EXPECT_THAT(Served(router, "b", 2), ElementsAre(Pair("r1", 2)));
  EXPECT_THAT(Served(router, "a", 1), ElementsAre(Pair("404", 1)));
}

TEST_F(Models, AReplicaThatCouldNotBeAskedIsAskedAgainWithItsNextProbe) {
  std::atomic<int> failures{3};
  FakeReplica late([&](TestSocket& peer, const WireMessage& request) {
    const bool fails = request.head.starts_with("GET /v1/models ") && failures-- > 0;
    peer.Send(JsonReply(fails ? 500 : 200, R"({"data":[{"id":"a"}]})"));
  });
  FakeReplica never(Answering(JsonReply(500, "{}")));
  RouterFixture router({late.origin(), never.origin(), one.origin()}, [](ServiceOptions& o) {
    Declaring({{}, {}, {"z"}})(o);
    o.models_interval = seconds(3600);
    o.health.probe_interval = milliseconds(10);
  });
  ASSERT_TRUE(AwaitModels(router, {{"a"}, {}, {"z"}}));
  EXPECT_TRUE(Eventually([&] { return Served(router, "z", 2).size() == 2; }))
      << "who never tells is taken to serve anything after a while";
}

TEST_F(Models, ANameWhoseOnlyReplicaLeftForAMomentIs503) {
  RouterFixture router({one.origin(), two.origin()}, [](ServiceOptions& o) {
    Declaring({{"a"}, {"b"}})(o);
    o.admin.on_door = true;
    o.admin.token = "t";
  });
  ASSERT_EQ(router
                .Ask("DELETE /admin/replicas/r1 HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer "
                     "t\r\n\r\n")
                .status(),
            200);
  const WireMessage away = router.Ask(Post(Body("a")));
  EXPECT_EQ(away.status(), 503);
  EXPECT_NE(away.Field("Retry-After"), "");
  EXPECT_EQ(router.Ask(Post(Body("c"))).status(), 404);
}

// Whoever may serve it is known, though nobody is usable.
TEST_F(Models, AModelThatNobodyMayServeIs404AlsoBeforeAnybodyIsUp) {
  one.SetHealth(500);
  const auto ask = [&](const std::string& model, const RouterFixture::Adjust& adjust) {
    RouterFixture router({one.origin()}, adjust, 0);
    EXPECT_TRUE(Eventually([&] { return one.probes() > 0; }));
    return router.Ask(Post(Body(model))).status();
  };
  EXPECT_EQ(ask("x", Declaring({{"a"}})), 404);
  EXPECT_EQ(ask("a", Declaring({{"a"}})), 503);
  const auto asking = [](ServiceOptions& o) {
    Declaring({{"a"}})(o);
    AskingForModels(o);
  };
  EXPECT_EQ(ask("x", asking), 503) << "it may turn out to be an adapter of a";
  EXPECT_EQ(ask("x", AskingForModels), 503);
}

// llama.cpp's server and SGLang serve whatever name is asked for.
TEST_F(Models, AnEngineThatAnswersToAnyNameIsSentWhatNobodyLists) {
  one.SetModelsText(R"({"data":[{"id":"x.gguf","owned_by":"llamacpp"}]})");
  two.SetModelsText(R"({"data":[{"id":"y.gguf","owned_by":"llamacpp"}]})");
  three.SetModelsText(R"({"data":[{"id":"m","owned_by":"vllm"}]})");
  RouterFixture router(Three(), AskingForModels);
  ASSERT_TRUE(AwaitModels(router, {{"x.gguf"}, {"y.gguf"}, {"m"}}));
  EXPECT_THAT(Served(router, "gpt-4o"), ElementsAre(Pair("r1", 3), Pair("r2", 3)));
  EXPECT_THAT(Served(router, "y.gguf"), ElementsAre(Pair("r2", 6)));
  EXPECT_THAT(Served(router, "m"), ElementsAre(Pair("r3", 6)));
}

TEST_F(Models, AModelWhoseReplicasAreAllAwayIs503) {
  RouterFixture router(Three(), [](ServiceOptions& o) {
    Declaring({{"a"}, {"a"}, {"b"}})(o);
    o.health.probe_interval = milliseconds(10);
  });
  one.SetHealth(500);
  two.SetHealth(500);
  ASSERT_TRUE(router.AwaitUsable(1));
  const WireMessage away = router.Ask(Post(Body("a")));
  EXPECT_EQ(away.status(), 503);
  EXPECT_NE(away.Field("Retry-After"), "");
  EXPECT_THAT(away.body, HasSubstr("no replica that may serve the model \\\"a\\\" is usable now"));
  EXPECT_EQ(router.Ask(Post(Body("b"))).status(), 200);
  EXPECT_EQ(router.Ask(Post(Body("c"))).status(), 404);
  three.SetHealth(500);
  ASSERT_TRUE(router.AwaitUsable(0));
  EXPECT_EQ(router.Ask(Post(Body("b"))).status(), 503);
}

TEST_F(Models, APinToAReplicaOfAnotherModelIs400) {
  RouterFixture router({one.origin(), two.origin()}, Declaring({{"a"}, {"b"}}));
  const WireMessage reply = router.Ask(Post(Body("a"), "x-ember-pin: r2\r\n"));
  EXPECT_EQ(reply.status(), 400);
  EXPECT_THAT(reply.body, HasSubstr("does not serve the model \\\"a\\\""));
  EXPECT_EQ(router.Ask(Post(Body("a"), "x-ember-pin: r1\r\n")).status(), 200);
  EXPECT_EQ(router.Ask(Post("{}", "x-ember-pin: r2\r\n")).status(), 200);
}

TEST_F(Models, TheListIsOfAllThatTheFleetServes) {
  one.SetModelsText(
      R"({"object":"list","data":[{"id":"m","max_model_len":4096},{"id":"law","parent":"m"}]})");
  two.SetModels({"m"});
  RouterFixture router(Three(), [](ServiceOptions& o) {
    Declaring({{}, {}, {"org/declared"}})(o);
    AskingForModels(o);
  });
  ASSERT_TRUE(AwaitModels(router, {{"m", "law"}, {"m"}, {"org/declared"}}));
  const WireMessage list = router.Ask(Get("/v1/models"));
  EXPECT_EQ(list.status(), 200);
  EXPECT_THAT(list.body, testing::StartsWith(R"({"object":"list","data":[{"id":"m",)"));
  EXPECT_THAT(list.body, HasSubstr(R"({"id":"org/declared","object":"model",)"));
  EXPECT_EQ(list.body.find("\"id\":\"m\""), list.body.rfind("\"id\":\"m\"")) << "once";
  EXPECT_THAT(router.Page("/v1/models/org/declared"), HasSubstr(R"("id":"org/declared")"));
  for (const char* escaped : {"org%2Fdeclared", "org%2fdeclared?x=1", "%6Frg/declared"}) {
    EXPECT_THAT(router.Page(std::string("/v1/models/") + escaped),
                HasSubstr(R"("id":"org/declared")"))
        << escaped;
  }
  EXPECT_THAT(router.Page("/v1/models/law"), testing::StartsWith(R"({"id":"law","parent":"m")"));
  const WireMessage none = router.Ask(Get("/v1/models/x"));
  EXPECT_EQ(none.status(), 404);
  EXPECT_THAT(none.body, HasSubstr("model_not_found"));
  const int asked = three.requests();
  EXPECT_EQ(router.Ask("GET /v1/models HTTP/1.1\r\nHost: a\r\nx-ember-pin: r3\r\n\r\n").body, "{}")
      << "one replica's own";
  EXPECT_GT(three.requests(), asked);
}

// What replicas are asked must mean the same to them as to us.
TEST_F(Models, AnEscapedNameGoesToNoReplica) {
  RouterFixture router({one.origin()}, Declaring({{"org/a", "../pause", "a b"}}));
  EXPECT_THAT(router.Page("/v1/models/a%20b"), HasSubstr(R"("id":"a b")"));
  for (const std::string& head :
       {std::string("GET /v1/models/org%2Fx HTTP/1.1\r\nHost: a\r\n"),
        std::string("GET /v1/models/%2E%2E%2Fpause HTTP/1.1\r\nHost: a\r\n"),
        std::string("GET /v1/models/org%2Fa HTTP/1.1\r\nHost: a\r\nx-ember-pin: r1\r\n"),
        std::string("OPTIONS /v1/models/org%2Fa HTTP/1.1\r\nHost: a\r\n")}) {
    EXPECT_EQ(router.Ask(head + "\r\n").status(), 404) << head;
  }
  EXPECT_EQ(one.requests(), 0);
}

TEST_F(Models, AboutANameThatNobodyListsWhoMayServeItIsAsked) {
  RouterFixture router({one.origin(), two.origin()}, [](ServiceOptions& o) {
    Declaring({{"a"}})(o);
    AskingForModels(o);  // r2 lists none
  });
  ASSERT_TRUE(Eventually([&] { return two.requests() > 1; }));
  EXPECT_THAT(router.Page("/v1/models/a"), HasSubstr(R"("id":"a")"));
  const WireMessage reply = router.Ask(Get("/v1/models/org/x"));
  EXPECT_EQ(reply.status(), 200);
  EXPECT_EQ(reply.Field("x-ember-replica"), "r2");
}

TEST_F(Models, AreToldOfEachRankAndKeptOnce) {
  RouterFixture router(
      {one.origin()},
      [](ServiceOptions& o) {
        Declaring({{"a", "b"}})(o);
        o.replicas[0].ranks = 2;
      },
      2);
  const StatusReport status = router.Status();
  ASSERT_EQ(status.replicas.size(), 2u);
  EXPECT_THAT(*status.replicas[1].models, ElementsAre("a", "b"));
  EXPECT_EQ(status.replicas[0].models, status.replicas[1].models);
}

TEST_F(Models, StatusAdminAndExplainSayWhoServesWhat) {
  RouterFixture router({one.origin(), two.origin()}, [](ServiceOptions& o) {
    Declaring({{"a"}, {"b", "c"}})(o);
    o.admin.on_door = true;
    o.admin.token = "t";
  });
  EXPECT_THAT(router.Page("/admin/status"), HasSubstr(R"("models":["b","c"],"model_count":2)"));
  EXPECT_THAT(router
                  .Ask("GET /admin/replicas/r2 HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer "
                       "t\r\n\r\n")
                  .body,
              HasSubstr(R"("models":["b","c"])"));
  const auto explain = [&](const std::string& model) {
    return router.Ask(Post(Body(model), "Authorization: Bearer t\r\n", "/admin/explain"));
  };
  EXPECT_THAT(explain("c").body, HasSubstr(R"("replica":"r1","state":"up")"));
  EXPECT_THAT(explain("c").body, HasSubstr("it does not serve the model"));
  EXPECT_THAT(explain("c").body, HasSubstr(R"("model":"c")"));
  EXPECT_EQ(explain("d").status(), 404);
}

TEST_F(Models, AnAdaptersPolicyIsItsBases) {
  one.SetModelsText(R"({"data":[{"id":"m"},{"id":"law","parent":"m"},{"id":"own","parent":"m"}]})");
  RouterFixture router({one.origin()}, [](ServiceOptions& o) {
    AskingForModels(o);
    o.router.model_policies["m"] = FindPolicy("least_loaded");
    o.router.model_policies["own"] = FindPolicy("random");
  });
  ASSERT_TRUE(AwaitModels(router, {{"m", "law", "own"}}));
  const auto policy = [&](const char* model) {
    return router.Ask(Post(Body(model))).Field("x-ember-policy");
  };
  EXPECT_EQ(policy("law"), "least_loaded");
  EXPECT_EQ(policy("own"), "random");
}

// The last resort for prompts, their text, is known by the model it was sent for.
TEST_F(Models, TheSameTextForAnotherModelIsNotMatched) {
  RouterFixture router({one.origin()}, [](ServiceOptions& o) {
    o.router.default_policy = FindPolicy("cache_aware");
  });
  const auto held = [&](const std::string& model) {
    const std::string body = R"({"messages":[{"role":"user","content":")" + std::string(4000, 'x') +
                             R"("}],"model":")" + model + "\"}";
    EXPECT_EQ(router.Ask(Post(body)).status(), 200);
    const std::string page = router.Page("/admin/explain?n=1");
    const size_t at = page.find("\"device_tokens\":");
    return at == page.npos ? -1 : std::stoi(page.substr(at + 16));
  };
  EXPECT_EQ(held("a"), 0);
  EXPECT_GT(held("a"), 500);
  EXPECT_EQ(held("b"), 0);
}

}  // namespace
}  // namespace ember::router
