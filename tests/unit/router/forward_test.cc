// What goes through the router goes through unchanged: bodies, replies, streams (D2, D6, D11, D12).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "proto/base/random.h"
#include "tests/unit/router/router_fixture.h"

namespace ember::router {
namespace {

using http::Signal;
using http::TestSocket;
using http::WireMessage;
using testing::HasSubstr;
using testing::Not;

TEST(Forward, BodyTargetAndHeadersArriveAsSent) {
  FakeReplica replica(Answering(JsonReply(200, "{\"ok\":1}", "X-Engine: e\r\n")));
  RouterFixture router({replica.origin()});
  const std::string body = "{ \"b\":1.50, \"a\":\"\\u00e9\",\"b\": 2 }";
  const WireMessage reply = router.Ask(
      Post(body,
           "Authorization: Bearer k\r\nX-Custom: 1\r\nx-ember-store: off\r\n"
           "x-ember-policy: random\r\nx-ember-request-id: my-id\r\nX-Forwarded-For: 9.9.9.9\r\n",
           "/v1/chat/completions?sticky=0&keep=%2F"));
  EXPECT_EQ(reply.status(), 200);
  EXPECT_EQ(reply.body, "{\"ok\":1}");
  EXPECT_EQ(reply.Field("X-Engine"), "e");
  EXPECT_EQ(reply.Field("x-ember-replica"), "r1");
  EXPECT_EQ(reply.Field("x-ember-policy"), "random");
  EXPECT_EQ(reply.Field("x-ember-request-id"), "my-id");
  const WireMessage seen = replica.Request();
  EXPECT_EQ(seen.body, body);
  EXPECT_THAT(seen.head, HasSubstr("POST /v1/chat/completions?keep=%2F HTTP/1.1\r\n"));
  EXPECT_EQ(seen.Field("Authorization"), "Bearer k");
  EXPECT_EQ(seen.Field("X-Custom"), "1");
  EXPECT_EQ(seen.Field("x-ember-store"), "off");
  EXPECT_EQ(seen.Field("x-ember-policy"), "");
  EXPECT_EQ(seen.Field("x-ember-request-id"), "my-id");
  EXPECT_EQ(seen.Field("X-Forwarded-For"), "9.9.9.9, 127.0.0.1");
  EXPECT_EQ(seen.Field("X-Forwarded-Host"), "door.example");
  EXPECT_EQ(seen.Field("Host"), replica.origin().ToString());
}

TEST(Forward, AServedPathWithEachOfItsMethods) {  // D5
  FakeReplica replica(Answering(JsonReply(200, "{}")));
  RouterFixture router({replica.origin()},
                       [](ServiceOptions& o) { o.allowed_paths = {"/v1/files"}; });
  for (const char* head : {"GET /v1/models", "DELETE /v1/files/x", "DELETE /v1/responses/r?x=1"}) {
    const int before = replica.requests();
    const auto reply =
        router.Ask(std::string(head) + " HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
    EXPECT_EQ(reply.status(), 200) << head;
    EXPECT_THAT(replica.Request(static_cast<size_t>(before)).head, testing::StartsWith(head));
  }
}

TEST(Forward, StatusAndBodyOfTheReplicaComeBackAsTheyAre) {
  for (const int status : {400, 401, 404, 422, 429, 500}) {
    FakeReplica replica(Answering(JsonReply(status, "{\"error\":{\"message\":\"m\"}}")));
    RouterFixture router({replica.origin()});
    const WireMessage reply = router.Ask(Post("{}"));
    EXPECT_EQ(reply.status(), status);
    EXPECT_EQ(reply.body, "{\"error\":{\"message\":\"m\"}}");
    EXPECT_TRUE(router.AwaitUsable(1)) << "what a client did wrong says nothing about the replica";
    EXPECT_EQ(replica.requests(), 1);
  }
}

TEST(Upload, HowItWasCutDoesNotShow) {  // D2
  FakeReplica replica(Answering(JsonReply(200, "{}")));
  RouterFixture router({replica.origin()});
  const std::string body = "{\"prompt\":\"\xf0\x9f\x94\xa5 \xe4\xbd\xa0\xe5\xa5\xbd\"}";
  const std::string head =
      "POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n";
  std::vector<std::vector<std::string>> uploads;
  const auto chunk = [](std::string_view s) {
    char size[32];
    std::snprintf(size, sizeof size, "%zx\r\n", s.size());
    return size + std::string(s) + "\r\n";
  };
  const std::string chunked = head + "Transfer-Encoding: chunked\r\n\r\n";
  uploads.push_back({chunked + chunk(body) + "0\r\n\r\n"});
  std::vector<std::string> single = {chunked};
  for (const char c : body) single.push_back(chunk({&c, 1}));
  single.push_back("0\r\n\r\n");
  uploads.push_back(single);
  uploads.push_back({chunked + chunk(body.substr(0, 13)), chunk(body.substr(13)) + "0\r\n\r\n"});
  const std::string sized = head + "Content-Length: " + std::to_string(body.size()) + "\r\n";
  uploads.push_back({sized + "\r\n", body.substr(0, 12), body.substr(12)});
  for (size_t i = 0; i < uploads.size(); ++i) {
    TestSocket client = router.Client();
    for (const std::string& piece : uploads[i]) ASSERT_TRUE(client.Send(piece));
    EXPECT_EQ(client.ReadMessage().status(), 200) << i;
    EXPECT_EQ(replica.Request(i).body, body) << i;
  }
  TestSocket client = router.Client();
  client.Send(sized + "Expect: 100-continue\r\n\r\n");
  ASSERT_TRUE(client.ReadUntil("100 Continue\r\n\r\n"));
  client.Send(body);
  EXPECT_EQ(client.ReadMessage().status(), 200);
  EXPECT_EQ(replica.Request(uploads.size()).body, body);
  EXPECT_EQ(replica.requests(), static_cast<int>(uploads.size()) + 1);
}

std::string PromptOf(size_t size) {
  const std::string before = "{\"prompt\":\"", after = "\"}";
  std::string body = before;
  SeededRandom random(size);
  while (body.size() < size - after.size())
    body.push_back(static_cast<char>('a' + random.Next() % 26));
  return body + after;
}

TEST(Upload, HugePromptsArriveWholeAndOneByteMoreIs413) {  // D6
  FakeReplica replica(Answering(JsonReply(200, "{}")));
  constexpr size_t kLimit = 64u << 20;
  RouterFixture router({replica.origin()},
                       [](ServiceOptions& o) { o.server.max_body_bytes = kLimit; });
  size_t n = 0;
  for (const size_t size :
       {size_t{8} << 10, size_t{128} << 10, size_t{1} << 20, size_t{8} << 20, kLimit}) {
    const std::string body = PromptOf(size);
    EXPECT_EQ(router.Ask(Post(body)).status(), 200) << size;
    EXPECT_TRUE(replica.Request(n++).body == body) << size;
  }
  TestSocket client = router.Client();
  client.Send("POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: " +
              std::to_string(kLimit + 1) + "\r\n\r\n");
  const WireMessage refused = client.ReadMessage();
  EXPECT_EQ(refused.status(), 413) << "before a byte of the body was sent";
  EXPECT_THAT(refused.body, HasSubstr("\"error\":{"));
  EXPECT_EQ(replica.requests(), static_cast<int>(n));
}

const std::string kEvents =
    ": keep-alive\r\n\r\n"
    "data:{\"choices\":[{\"delta\":{\"content\":\"\xe4\xbd\xa0\xf0\x9f\x94\xa5\"}}]}\n\n"
    "event: x\r\ndata: {\"a\":\"\x80\xbf \xe2\x80\xa8\"}\r\n\r\n"
    "data: {\"usage\":{\"prompt_tokens\":40,\"prompt_tokens_details\":{\"cached_tokens\":32}}}\n\n"
    "data: [DONE]\n\n";

TEST(Stream, BytesAreEqualWhereverTheUpstreamCuts) {  // D11, D12
  std::atomic<size_t> cut{0};
  FakeReplica replica([&](TestSocket& peer, const WireMessage&) {
    const auto chunk = [](std::string_view s) {
      char size[32];
      std::snprintf(size, sizeof size, "%zx\r\n", s.size());
      return size + std::string(s) + "\r\n";
    };
    peer.Send(
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n");
    if (cut == 0) {
      for (const char c : kEvents) peer.Send(chunk({&c, 1}));
    } else {
      peer.Send(chunk(kEvents.substr(0, cut)));
      if (cut < kEvents.size()) peer.Send(chunk(kEvents.substr(cut)));
    }
    peer.Send("0\r\n\r\n");
  });
  RouterFixture router({replica.origin()});
  TestSocket client = router.Client();
  for (cut = 0; cut <= kEvents.size(); ++cut) {
    client.Send(Post("{\"stream\":true}"));
    const WireMessage reply = client.ReadMessage();
    ASSERT_TRUE(reply.complete) << cut;
    ASSERT_EQ(reply.body, kEvents) << cut;
    ASSERT_EQ(reply.Field("Content-Type"), "text/event-stream");
  }
  const ReplicaTotals totals = router.Status().replicas[0].totals;
  EXPECT_EQ(totals.cached_tokens, 32 * (kEvents.size() + 1))
      << "usage is counted however it was cut";
  EXPECT_EQ(totals.computed_tokens, 8 * (kEvents.size() + 1));
}

TEST(Stream, LargeEventsPass) {  // D11
  const std::string events = "data: " + std::string(64 << 10, 'x') + "\n\ndata: [DONE]\n\n";
  FakeReplica replica(Answering(StreamReply(events)));
  RouterFixture router({replica.origin()});
  EXPECT_EQ(router.Ask(Post("{\"stream\":true}")).body, events);
}

TEST(Stream, EachPieceArrivesAsItIsMade) {
  Signal first_seen, second_seen;
  FakeReplica replica([&](TestSocket& peer, const WireMessage&) {
    peer.Send(
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: "
        "chunked\r\nx-ember-route: remote\r\nx-ember-cached-tokens: 960\r\n\r\n");
    peer.Send("9\r\ndata: 1\n\n\r\n");
    first_seen.Await();  // nothing more is made before the client has this
    peer.Send("9\r\ndata: 2\n\n\r\n");
    second_seen.Await();
    peer.Send("0\r\n\r\n");
  });
  RouterFixture router({replica.origin()},
                       [](ServiceOptions& o) { o.replicas[0].grpc = "127.0.0.1:9"; });
  TestSocket client = router.Client();
  client.Send(Post("{\"stream\":true}"));
  const auto first = client.ReadUntil("data: 1\n\n");
  ASSERT_TRUE(first);
  EXPECT_THAT(*first, HasSubstr("x-ember-route: remote\r\n"));
  EXPECT_THAT(*first, HasSubstr("x-ember-cached-tokens: 960\r\n"));
  first_seen.Set();
  ASSERT_TRUE(client.ReadUntil("data: 2\n\n"));
  second_seen.Set();
  ASSERT_TRUE(client.ReadUntil("0\r\n\r\n"));
  EXPECT_TRUE(
      http::Eventually([&] { return router.Status().replicas[0].totals.routed_remote == 1; }));
}

// Without grpc= it is known by the name that both give it.
TEST(Forward, AnAgentsWordIsPassedOnAndNobodyElses) {
  for (const bool agent : {true, false}) {
    const std::string named = agent ? "r1" : "r2";
    FakeReplica replica(Answering(JsonReply(200, "{}",
                                            "x-ember-replica: " + named +
                                                "\r\nx-ember-route: remote\r\n"
                                                "x-ember-cached-tokens: 960\r\n")));
    RouterFixture router({replica.origin()});
    const WireMessage reply = router.Ask(Post("{}"));
    EXPECT_EQ(reply.Field("x-ember-replica"), "r1");
    EXPECT_EQ(reply.Field("x-ember-route"), agent ? "remote" : "");
    EXPECT_EQ(reply.Field("x-ember-cached-tokens"), agent ? "960" : "");
  }
}

TEST(Forward, ARouteThatIsNoneBecomesNoLabel) {
  FakeReplica replica(Answering(JsonReply(200, "{}", "x-ember-route: sideways\r\n")));
  RouterFixture router({replica.origin()},
                       [](ServiceOptions& o) { o.replicas[0].grpc = "127.0.0.1:9"; });
  EXPECT_EQ(router.Ask(Post("{}")).status(), 200);
  EXPECT_THAT(router.Page("/metrics"), Not(HasSubstr("sideways")));
}

TEST(Upstream, ProbesCarryTheReplicasKeyAndHostAndNobodyElseGetsIt) {  // D27, D28
  FakeReplica keyed(Answering(JsonReply(200, "{}"))), plain(Answering(JsonReply(200, "{}")));
  RouterFixture router({keyed.origin(), plain.origin()}, [](ServiceOptions& o) {
    o.replicas[0].key = "s3cret";
    o.replicas[0].host = "llm.example:8443";
  });
  EXPECT_EQ(keyed.Probe().Field("Authorization"), "Bearer s3cret");
  EXPECT_EQ(keyed.Probe().Field("Host"), "llm.example:8443");
  EXPECT_EQ(plain.Probe().Field("Authorization"), "");
  EXPECT_EQ(router.Ask(Post("{}", "x-ember-pin: r1\r\n")).status(), 200);
  const WireMessage seen = keyed.Request();
  EXPECT_EQ(seen.Field("Host"), "llm.example:8443");
  EXPECT_EQ(seen.Field("X-Forwarded-Host"), "door.example");
  EXPECT_EQ(seen.Field("Authorization"), "") << "a client's request has the client's key or none";
  for (const char* page : {"/admin/status", "/admin/explain", "/metrics"}) {
    EXPECT_THAT(router.Page(page), Not(HasSubstr("s3cret"))) << page;
  }
}

}  // namespace
}  // namespace ember::router
