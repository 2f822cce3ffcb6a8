// What a request leaves behind: headers, spans at a collector, a line in the access log.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "router/telemetry/trace_context.h"
#include "tests/unit/router/router_fixture.h"
#include "tests/unit/support/temp_folder.h"

namespace ember::router {
namespace {

using http::WireMessage;
using testing::HasSubstr;
using testing::MatchesRegex;
using testing::Not;

constexpr char kTraceHeaders[] =
    "traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\r\n"
    "tracestate: vendor=opaque,other=1\r\n";

RouterFixture::Adjust Collecting(const http::Origin& collector, double sample = 1) {
  return [=](ServiceOptions& options) {
    options.telemetry.otlp = OtlpOptions{.collector = collector, .sample = sample};
    options.telemetry.otlp->queue.pause = Duration(0);
  };
}

TEST(SeenHeaders, WithoutAnAgentTheEnginesCountNamesTheRouteInMetricsAndExplain) {
  FakeReplica replica(Answering(JsonReply(
      200, R"({"usage":{"prompt_tokens":1000,"prompt_tokens_details":{"cached_tokens":960}}})")));
  RouterFixture router({replica.origin()});
  const WireMessage reply = router.Ask(Post("{}", "x-ember-request-id: a\r\n"));
  EXPECT_EQ(reply.Field("x-ember-replica"), "r1");
  EXPECT_EQ(reply.Field("x-ember-route"), "local");
  EXPECT_EQ(reply.Field("x-ember-cached-tokens"), "960");
  EXPECT_EQ(reply.Field("x-ember-predicted-ttft-ms"), "") << "round robin predicts nothing";
  const std::string explained = router.Page("/admin/explain?id=a");
  EXPECT_THAT(explained, HasSubstr(R"("route":"local")"));
  EXPECT_THAT(explained, HasSubstr(R"("cached_tokens":960,"computed_tokens":40)"));
  const std::string metrics = router.Page("/metrics");
  EXPECT_THAT(metrics, HasSubstr(R"(requests_total{policy="round_robin",route="local",)"));
  EXPECT_THAT(metrics, HasSubstr("ember_router_hit_tokens_total{source=\"real\"} 960"));
}

TEST(SeenHeaders, AStreamsCountComesTooLateForItsHeadAndInTimeForTheRest) {
  FakeReplica replica(Answering(
      StreamReply("data: {\"choices\":[]}\n\ndata: {\"usage\":{\"prompt_tokens\":9,"
                  "\"prompt_tokens_details\":{\"cached_tokens\":0}}}\n\ndata: [DONE]\n\n")));
  RouterFixture router({replica.origin()});
  const WireMessage reply = router.Ask(Post("{}"));
  EXPECT_EQ(reply.Field("x-ember-route"), "") << "round robin predicts nothing";
  EXPECT_EQ(reply.Field("x-ember-cached-tokens"), "");
  EXPECT_THAT(router.Page("/metrics"), HasSubstr(R"(route="recompute",status="200"} 1)"));
}

// vLLM and SGLang say how much was cached only when asked to, and then not when it was nothing.
TEST(SeenHeaders, SilenceIsNoCountUntilTheEngineHasCountedOnce) {
  constexpr char kSilent[] = R"({"usage":{"prompt_tokens":100,"prompt_tokens_details":null}})";
  std::atomic<bool> counts{false};
  FakeReplica replica([&](http::TestSocket& peer, const WireMessage&) {
    peer.Send(JsonReply(
        200, counts
                 ? R"({"usage":{"prompt_tokens":100,"prompt_tokens_details":{"cached_tokens":64}}})"
                 : kSilent));
  });
  RouterFixture router({replica.origin()});
  const WireMessage silent = router.Ask(Post("{}"));
  EXPECT_EQ(silent.Field("x-ember-route"), "");
  EXPECT_EQ(silent.Field("x-ember-cached-tokens"), "");
  EXPECT_THAT(router.Page("/metrics"), HasSubstr("ember_router_prompt_tokens_total 0"));
  counts = true;
  EXPECT_EQ(router.Ask(Post("{}")).Field("x-ember-cached-tokens"), "64");
  counts = false;
  EXPECT_EQ(router.Ask(Post("{}")).Field("x-ember-route"), "recompute");
  EXPECT_THAT(router.Page("/metrics"), HasSubstr("ember_router_prompt_tokens_total 200"));
}

TEST(SeenHeaders, AnEngineThatDoesNotCountKeepsWhatItWasSent) {  // A8
  const std::string reply = JsonReply(
      200,
      R"({"usage":{"prompt_tokens":2000,"prompt_tokens_details":null,"completion_tokens":1}})");
  FakeReplica one{Answering(reply)}, two{Answering(reply)};
  RouterFixture router({one.origin(), two.origin()},
                       [](ServiceOptions& o) { o.router.default_policy = FindPolicy("prefix"); });
  std::vector<std::string> homes;
  for (int i = 0; i < 60; ++i) {
    // In turn, so that each has become old before it comes again.
    const std::string prompt(8000, static_cast<char>('a' + i % 10));
    homes.push_back(router.Ask(Post("{\"prompt\":\"" + prompt + "\"}", "", "/v1/completions"))
                        .Field("x-ember-replica"));
    EXPECT_EQ(homes.back(), homes[static_cast<size_t>(i % 10)]) << i;
  }
}

// vLLM sums the prompts' lengths, and tells of the last prompt, or answer, how much it had cached.
TEST(SeenHeaders, ABatchsCountsSayNothingOfItsFirstPrompt) {  // A8
  std::atomic<int> cached{2000};
  FakeReplica replica([&](http::TestSocket& peer, const WireMessage&) {
    peer.Send(JsonReply(
        200, R"({"usage":{"prompt_tokens":4000,"prompt_tokens_details":{"cached_tokens":)" +
                 std::to_string(cached) + "}}}"));
  });
  RouterFixture router({replica.origin()}, [](ServiceOptions& o) {
    o.router.default_policy = FindPolicy("cache_aware");
  });
  const std::string first(8000, 'a'), other(8000, 'b');
  const auto predicted = [&] {  // of the first prompt, now
    const std::string table =
        router
            .Ask(Post("{\"prompt\":\"" + first + "\"}", "", "/admin/explain?path=/v1/completions"))
            .body;
    const size_t at = table.find("\"device_tokens\":");
    return at == table.npos ? -1 : std::atoi(table.c_str() + at + 16);
  };
  router.Ask(Post("{\"prompt\":\"" + first + "\"}", "", "/v1/completions"));
  const int held = predicted();
  EXPECT_GT(held, 1900);
  for (const int told : {0, 4000}) {
    cached = told;
    for (const std::string& members : {"\"prompt\":[\"" + first + "\",\"" + other + "\"]",
                                       "\"n\":2,\"prompt\":\"" + first + "\""}) {
      const WireMessage reply = router.Ask(Post("{" + members + "}", "", "/v1/completions"));
      EXPECT_EQ(reply.Field("x-ember-cached-tokens"), std::to_string(held)) << members;
      EXPECT_EQ(reply.Field("x-ember-route"), "local");
      EXPECT_EQ(predicted(), held) << members;
    }
  }
  EXPECT_THAT(router.Page("/metrics"), HasSubstr("ember_router_prompt_tokens_total 4000\n"));
}

TEST(SeenHeaders, AFitRequestIdIsKeptAndAnotherIsMade) {
  FakeReplica replica(Answering(JsonReply(200, "{}")));
  RouterFixture router({replica.origin()});
  const auto id = [&](const std::string& asked) {
    return router.Ask(Post("{}", "x-ember-request-id: " + asked + "\r\n"))
        .Field("x-ember-request-id");
  };
  EXPECT_EQ(id("turn-2_a.b"), "turn-2_a.b");
  for (const std::string& bad :
       std::vector<std::string>{"", "a b", "\"", "x\xff", std::string(65, 'a')}) {
    EXPECT_EQ(id(bad).size(), 32u) << bad;
  }
}

using IdPair = std::pair<std::string, std::string>;

TEST(SeenHeaders, TheIdThatSdksLookForIsTheReplicasElseTheClientsElseOurs) {
  FakeReplica silent(Answering(JsonReply(200, "{}")));
  FakeReplica names(Answering(JsonReply(200, "{}", "X-Request-Id: engine-7\r\n")));
  RouterFixture router({silent.origin(), names.origin()});
  const auto ask = [&](const std::string& fields, std::string_view body = "{}") {
    const WireMessage reply = router.Ask(Post(body, fields));
    return IdPair(reply.Field("x-request-id"), reply.Field("x-ember-request-id"));
  };
  const std::string mine = "x-request-id: mine\r\n";
  EXPECT_EQ(ask("x-ember-pin: r1\r\n" + mine), IdPair("mine", "mine"));
  EXPECT_EQ(silent.Request().Field("x-request-id"), "mine");
  EXPECT_EQ(ask("x-ember-pin: r2\r\n" + mine), IdPair("engine-7", "mine"));
  EXPECT_EQ(ask(mine + "x-ember-request-id: ours\r\n", "[]"), IdPair("ours", "ours"));
  const auto made = ask("x-ember-pin: r1\r\nx-request-id: a b\r\n");
  EXPECT_EQ(made.first.size(), 32u);
  EXPECT_EQ(made.first, made.second);
}

TEST(SeenHeaders, AnErrorTookNoRoute) {
  FakeReplica replica(Answering(JsonReply(400, R"({"timings":{"cache_n":8,"prompt_n":1}})")));
  RouterFixture router({replica.origin()});
  EXPECT_EQ(router.Ask(Post("{}")).Field("x-ember-route"), "");
  EXPECT_THAT(router.Page("/metrics"), HasSubstr(R"(route="none",status="400"} 1)"));
}

TEST(SeenHeaders, ARouteThatIsNoneIsNotPassedOn) {
  FakeReplica replica(Answering(JsonReply(200, "{}", "x-ember-route: mars\r\n")));
  RouterFixture router({replica.origin()},
                       [](ServiceOptions& o) { o.replicas[0].grpc = "127.0.0.1:9"; });
  EXPECT_EQ(router.Ask(Post("{}")).Field("x-ember-route"), "");
}

// Neither in the reply nor in what is counted.
TEST(SeenHeaders, AReplicaWithoutAnAgentDoesNotSpeakForTheRouter) {
  FakeReplica replica(Answering(JsonReply(200, R"({"usage":{"prompt_tokens":9}})",
                                          "X-Ember-Route: remote\r\nx-ember-cached-tokens: 777\r\n"
                                          "x-ember-predicted-ttft-ms: 1\r\nx-ember-own: 1\r\n"
                                          "x-ember-replica: evil\r\nx-emberless: 1\r\n")));
  RouterFixture router({replica.origin()});
  const WireMessage reply = router.Ask(Post("{}"));
  EXPECT_EQ(reply.Field("x-ember-replica"), "r1");
  for (const char* name :
       {"x-ember-route", "x-ember-cached-tokens", "x-ember-predicted-ttft-ms", "x-ember-own"}) {
    EXPECT_EQ(reply.Field(name), "") << name;
  }
  EXPECT_EQ(reply.Field("x-emberless"), "1");
  EXPECT_THAT(router.Page("/metrics"), Not(HasSubstr(R"(route="remote",status)")));
  RouterFixture agent({replica.origin()},
                      [](ServiceOptions& o) { o.replicas[0].grpc = "127.0.0.1:9"; });
  EXPECT_EQ(agent.Ask(Post("{}")).Field("x-ember-cached-tokens"), "777");
}

TEST(SeenHeaders, MoreCachedThanThePromptHasIsNoCount) {
  for (const char* usage : {R"("prompt_tokens":10,"prompt_tokens_details":{"cached_tokens":99999})",
                            R"("prompt_tokens":10,"prompt_tokens_details":{"cached_tokens":11})",
                            R"("input_tokens":10,"input_tokens_details":{"cached_tokens":11})"}) {
    FakeReplica replica(Answering(JsonReply(200, R"({"usage":{)" + std::string(usage) + "}}")));
    RouterFixture router({replica.origin()});
    EXPECT_EQ(router.Ask(Post("{}")).Field("x-ember-cached-tokens"), "") << usage;
    EXPECT_THAT(router.Page("/metrics"),
                HasSubstr("ember_router_hit_tokens_total{source=\"real\"} 0"));
  }
}

TEST(SeenHeaders, ServerTimingOnlyWhenAskedFor) {
  FakeReplica replica(Answering(JsonReply(200, "{}")));
  RouterFixture silent({replica.origin()});
  EXPECT_EQ(silent.Ask(Post("{}")).Field("Server-Timing"), "");
  RouterFixture router({replica.origin()},
                       [](ServiceOptions& o) { o.forwarder.server_timing = true; });
  EXPECT_THAT(router.Ask(Post("{}")).Field("Server-Timing"),
              MatchesRegex("tokenize;dur=[0-9.]+, match;dur=[0-9.]+, decide;dur=[0-9.]+, "
                           "queue;dur=[0-9.]+, upstream;dur=[0-9.]+"));
}

TEST(SeenStatus, TellsWhichTokenizerAndWhereBlocksLie) {
  FakeReplica replica(Answering(JsonReply(200, "{}")));
  RouterFixture router({replica.origin()}, [](ServiceOptions& o) {
    o.router.default_policy = FindPolicy("prefix");
    o.parity.interval = Duration::zero();
    o.tokenizer.local.min_body_bytes = 0;
    o.tokenizer.local.models = {{"m", "tests/unit/router_tokenize/data/byte_level.json"}};
  });
  const std::string before = router.Page("/admin/status");
  EXPECT_THAT(before, HasSubstr(R"("tokenizer":{"models":[{"model":"m","library":"fastokens")"));
  EXPECT_THAT(before, HasSubstr(R"("cuts":true,"chat_template":false,"parity":"not_compared")"));
  EXPECT_THAT(before, HasSubstr(R"("prompts":{"local":0,"agent":0,"engine":0,"text":0})"));
  std::string text;
  for (int i = 0; i < 2000; ++i) text += std::string(4, static_cast<char>('a' + i % 26)) + " ";
  const std::string body = R"({"model":"m","prompt":")" + text + "\"}";
  for (int i = 0; i < 2; ++i)
    EXPECT_EQ(router.Ask(Post(body, "", "/v1/completions")).status(), 200);
  const StatusReport status = router.Status();
  EXPECT_EQ(status.tokenizer.prompts[static_cast<size_t>(TokenSource::kLocal)], 2u);
  EXPECT_GT(status.tokenizer.cache_bytes, 0u);
  EXPECT_LE(status.tokenizer.cache_bytes, status.tokenizer.cache_max_bytes);
  EXPECT_GT(status.tokenizer.known_bytes, 8000u) << "the second time";
  const uint32_t held = status.replicas[0].held.device;
  EXPECT_GT(held, 10u);
  EXPECT_THAT(status.Json(), HasSubstr("\"blocks_by_tier\":{\"device\":" + std::to_string(held) +
                                       ",\"host\":0,\"disk\":0}"));
  EXPECT_THAT(router.Page("/metrics"),
              HasSubstr("ember_router_replica_tier_blocks{replica=\"r1\",tier=\"device\"} " +
                        std::to_string(held) + "\n"));
}

TEST(SeenStatus, MillionsOfTokenIdsAreReadBesideTheLoop) {
  FakeReplica replica(Answering(JsonReply(200, "{}")));
  RouterFixture router({replica.origin()},
                       [](ServiceOptions& o) { o.router.default_policy = FindPolicy("prefix"); });
  std::string ids = "7";
  for (int i = 0; i < 300'000; ++i) ids += ",12345";
  const std::string body = "{\"prompt\":[" + ids + "]}";
  ASSERT_GT(body.size(), LocalTokenizer::kLargeBody);
  EXPECT_EQ(router.Ask(Post(body, "x-ember-request-id: a\r\n", "/v1/completions")).status(), 200);
  EXPECT_THAT(router.Page("/admin/explain?id=a"), HasSubstr("\"prompt_tokens\":300001"));
}

// Each token is sent so long after the client has the one before.
TEST(SeenStreams, TheTimeBetweenTokensIsMeasured) {
  std::atomic<int> seen{0};
  FakeReplica replica([&](http::TestSocket& peer, const WireMessage&) {
    peer.Send(
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
        "Transfer-Encoding: chunked\r\n\r\n");
    for (int i = 0; i < 3; ++i) {
      peer.Send("9\r\ndata: 1\n\n\r\n");
      for (int n = seen; n <= i; n = seen) seen.wait(n);
      LetTimePass(milliseconds(30));
    }
    peer.Send("0\r\n\r\n");
  });
  RouterFixture router({replica.origin()});
  http::TestSocket client = router.Client();
  client.Send(Post("{}"));
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(client.ReadUntil("data: 1\n\n"));
    ++seen;
    seen.notify_all();
  }
  EXPECT_TRUE(client.ReadUntil("0\r\n\r\n"));
  const std::string metrics = router.Page("/metrics");
  EXPECT_THAT(metrics, HasSubstr("ember_router_inter_token_seconds_count 2\n"));
  EXPECT_THAT(metrics, HasSubstr("ember_router_inter_token_seconds_bucket{le=\"0.025\"} 0\n"));
  EXPECT_THAT(metrics, HasSubstr("ember_router_ttft_seconds_count{route=\"none\"} 1\n"));
}

TEST(SeenSpans, GoToTheCollectorAndTheTraceGoesOn) {
  FakeReplica replica(Answering(JsonReply(200, "{}")));
  FakeReplica collector(Answering(JsonReply(200, "{}")));
  RouterFixture router({replica.origin()}, Collecting(collector.origin()));
  router.Ask(Post("{}", kTraceHeaders));
  const WireMessage sent = collector.Request();
  EXPECT_THAT(sent.head, HasSubstr("POST /v1/traces HTTP/1.1\r\n"));
  EXPECT_EQ(sent.Field("Content-Type"), "application/json");
  EXPECT_THAT(sent.body, HasSubstr("4bf92f3577b34da6a3ce929d0e0e4736"));
  EXPECT_THAT(sent.body, HasSubstr(R"("parentSpanId":"00f067aa0ba902b7")"));
  const WireMessage seen = replica.Request();
  EXPECT_EQ(seen.Field("tracestate"), "vendor=opaque,other=1");
  const auto passed = Traceparent::Parse(seen.Field("traceparent"));
  ASSERT_TRUE(passed);
  EXPECT_EQ(passed->trace.ToString(), "4bf92f3577b34da6a3ce929d0e0e4736");
  EXPECT_TRUE(passed->sampled);
  EXPECT_THAT(sent.body, testing::ContainsRegex("\"spanId\":\"" + SpanIdText(passed->span) +
                                                "\",\"parentSpanId\":\"[0-9a-f]+\",\"flags\":1,"
                                                "\"name\":\"upstream\""))
      << "the engine's spans hang below the upstream span";
  EXPECT_NE(passed->span, 0x00f067aa0ba902b7u);
  EXPECT_TRUE(http::Eventually([&] {
    return router.Page("/metrics").find("otlp_spans_sent_total 3\n") != std::string::npos;
  })) << "request, route, upstream";
}

TEST(SeenSpans, WhatIsNotSampledIsPassedOnAndNotSent) {
  FakeReplica replica(Answering(JsonReply(200, "{}")));
  FakeReplica collector(Answering(JsonReply(200, "{}")));
  {
    RouterFixture router({replica.origin()}, Collecting(collector.origin(), 0));
    router.Ask(Post("{}", "traceparent: broken\r\ntracestate: of=another\r\n"));
  }  // sends what is queued
  EXPECT_EQ(collector.requests(), 0);
  const auto passed = Traceparent::Parse(replica.Request().Field("traceparent"));
  ASSERT_TRUE(passed) << "a trace begins here";
  EXPECT_FALSE(passed->sampled);
  EXPECT_EQ(replica.Request().Field("tracestate"), "") << "of a trace that was broken off";
}

TEST(SeenSpans, WithoutACollectorHeadersPassUntouched) {
  FakeReplica replica(Answering(JsonReply(200, "{}")));
  RouterFixture router({replica.origin()});
  router.Ask(Post("{}", kTraceHeaders));
  EXPECT_THAT(replica.Request().head, HasSubstr(kTraceHeaders));
  router.Ask(Post("{}"));
  EXPECT_EQ(replica.Request(1).Field("traceparent"), "");
}

TEST(SeenSpans, ACollectorThatRefusesLosesSpansAndNothingElse) {
  FakeReplica replica(Answering(JsonReply(200, "{}")));
  FakeReplica collector(Answering(JsonReply(503, "{}")));
  RouterFixture router({replica.origin()}, Collecting(collector.origin()));
  EXPECT_EQ(router.Ask(Post("{}")).status(), 200);
  EXPECT_TRUE(http::Eventually([&] {
    return router.Page("/metrics").find("otlp_spans_dropped_total 3\n") != std::string::npos;
  }));
}

TEST(SeenSpans, ACollectorThatHangsHoldsUpNeitherRequestsNorTheEnd) {
  FakeReplica replica(Answering(JsonReply(200, "{}")));
  FakeReplica collector([](http::TestSocket& peer, const WireMessage&) { peer.AwaitClose(); });
  const TimePoint start = SteadyClock().Now();
  {
    RouterFixture router({replica.origin()}, [&](ServiceOptions& options) {
      Collecting(collector.origin())(options);
      options.telemetry.otlp->deadline = milliseconds(500);
      options.telemetry.otlp->queue.max_batch = 1;
    });
    for (int i = 0; i < 20; ++i) EXPECT_EQ(router.Ask(Post("{}")).status(), 200);
  }
  EXPECT_LT(SteadyClock().Now() - start, seconds(5)) << "20 deadlines are 10 s";
}

TEST(SeenLog, HasALineForEachRequestAndNoSecret) {
  const std::string folder = MakeTempFolder();
  FakeReplica replica(Answering(JsonReply(200, R"({"text":"the answer"})")));
  {
    RouterFixture router({replica.origin()}, [&](ServiceOptions& options) {
      options.telemetry.access_log = folder + "/log";
    });
    router.Ask(Post(R"({"prompt":"the question"})",
                    "Authorization: Bearer sk-1\r\nx-ember-request-id: one\r\n",
                    "/v1/completions?key=sk-2"));
    router.Ask(Post("[]", "x-ember-request-id: two\r\n"));
  }
  std::ifstream file(folder + "/log");
  std::string first, second, third;
  std::getline(file, first);
  std::getline(file, second);
  EXPECT_FALSE(std::getline(file, third));
  EXPECT_THAT(first,
              HasSubstr(R"("id":"one","method":"POST","path":"/v1/completions","status":200)"));
  EXPECT_THAT(first, MatchesRegex(".*\"tenant\":\"[0-9a-f]{16}\".*"));
  EXPECT_THAT(second, HasSubstr(R"("id":"two")"));
  EXPECT_THAT(second, HasSubstr(R"("status":400,"outcome":"refused: )"));
  for (const char* secret : {"sk-1", "sk-2", "question", "answer"}) {
    EXPECT_THAT(first + second, Not(HasSubstr(secret)));
  }
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace ember::router
