// Nothing that a client sends gets a 500 or harms another (D1), and limits are told plainly.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/router/router_fixture.h"

namespace ember::router {
namespace {

using http::Signal;
using http::TestSocket;
using http::WireMessage;
using testing::HasSubstr;

struct BadBody {
  const char* name;
  std::string body;
  bool passed_on;  // else refused with 400
};

std::vector<BadBody> Corpus() {
  std::string deep;
  for (int i = 0; i < 10000; ++i) deep += "{\"a\":[";
  return {{"empty", "", false},
          {"bracket", "[", false},
          {"string", "\"x\"", false},
          {"null", "null", false},
          {"array", "[{}]", false},
          {"deep", deep, false},
          {"deep_closed", std::string(10000, '[') + std::string(10000, ']'), false},
          {"nan", "{\"temperature\":NaN}", false},
          {"lone_surrogate", "{\"prompt\":\"\\ud800\"}", false},
          {"invalid_utf8", "{\"prompt\":\"\xff\xfe\"}", false},
          {"cut_short", "{\"prompt\":\"abc", false},
          {"two_values", "{}{}", false},
          {"nul", std::string("{\"a\":\"\0\"}", 9), false},
          {"huge_number", "{\"temperature\":1e400,\"seed\":18446744073709551616}", true},
          {"duplicate_keys", "{\"model\":\"a\",\"model\":\"b\"}", true},
          {"unknown_fields", "{\"x_vendor\":{\"y\":[1,null,\"z\"]},\"tools\":[{}]}", true}};
}

// A body of 64 MiB that is all quotes or escapes holds whoever reads through it for half a second.
TEST(BadBody, ALargeOneIsCheckedTooAndServedWhateverElseIsBeingRead) {  // P6
  FakeReplica replica(Answering(JsonReply(200, "{}")));
  const std::string large = "{\"x\":\"" + std::string(1100 << 10, 'x') + "\",\"n\":1000}";
  const std::string fits = "{\"x\":\"" + std::string(1100 << 10, 'x') + "\",\"n\":1}";
  RouterFixture router({replica.origin()});
  EXPECT_EQ(router.Ask(Post(large)).status(), 400);
  EXPECT_EQ(router.Ask(Post(fits)).status(), 200);
  RouterFixture busy({replica.origin()},
                     [](ServiceOptions& o) { o.tokenizer.local.max_waiting = 0; });
  for (const char* target : {"/v1/chat/completions", "/v1/embeddings"}) {
    EXPECT_EQ(busy.Ask(Post(fits, "", target)).status(), 200);
  }
  EXPECT_EQ(busy.Ask(Post(large)).status(), 400);
}

TEST(BadBody, IsRefusedInTheShapeOfOpenAiOrPassedOnUntouched) {  // D1
  FakeReplica replica(Answering(JsonReply(200, "{}")));
  RouterFixture router({replica.origin()});
  size_t passed = 0;
  for (const char* target : {"/v1/chat/completions", "/v1/completions"}) {
    for (const BadBody& bad : Corpus()) {
      const WireMessage reply = router.Ask(Post(bad.body, "", target));
      if (bad.passed_on) {
        EXPECT_EQ(reply.status(), 200) << bad.name;
        EXPECT_EQ(replica.Request(passed++).body, bad.body) << bad.name;
      } else {
        EXPECT_EQ(reply.status(), 400) << bad.name;
        EXPECT_THAT(reply.body, HasSubstr("\"error\":{\"message\":")) << bad.name;
        EXPECT_THAT(reply.body, HasSubstr("\"type\":\"invalid_request_error\"")) << bad.name;
      }
    }
  }
  EXPECT_EQ(replica.requests(), static_cast<int>(passed));
}

TEST(BadBody, OneThatAsksForThousandsOfAnswersIsRefused) {
  FakeReplica replica(Answering(JsonReply(200, "{}")));
  RouterFixture router({replica.origin()});
  for (const char* body : {"{\"n\":16384}", "{\"n\":1,\"best_of\":129}"}) {
    const WireMessage reply = router.Ask(Post(body, "", "/v1/completions"));
    EXPECT_EQ(reply.status(), 400) << body;
    EXPECT_THAT(reply.body, HasSubstr("\"type\":\"invalid_request_error\"")) << body;
  }
  EXPECT_EQ(replica.requests(), 0);
  EXPECT_EQ(router.Ask(Post("{\"n\":128}")).status(), 200);
}

TEST(BadBody, AByteOrderMarkAndWrongOrNoContentTypeAreNeverA500) {  // D1
  FakeReplica replica(Answering(JsonReply(200, "{}")));
  RouterFixture router({replica.origin()});
  const int with_mark = router.Ask(Post("\xef\xbb\xbf{}")).status();
  EXPECT_TRUE(with_mark == 200 || with_mark == 400) << with_mark;
  for (const char* type :
       {"", "Content-Type: text/plain\r\n", "Content-Type: multipart/form-data\r\n",
        "Content-Type: APPLICATION/JSON; charset=utf-16\r\n", "Content-Type: \r\n"}) {
    const auto reply = router.Ask("POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\n" +
                                  std::string(type) + "Content-Length: 2\r\n\r\n{}");
    EXPECT_EQ(reply.status(), 200) << type;
  }
}

TEST(BadBody, OtherPathsTakeWhatTheyLike) {
  FakeReplica replica(Answering(JsonReply(200, "{}")));
  RouterFixture router({replica.origin()});
  const std::string audio("RIFF\0\xff\x01", 7);
  EXPECT_EQ(router.Ask(Post(audio, "", "/v1/audio/transcriptions")).status(), 200);
  EXPECT_EQ(replica.Request().body, audio);
}

TEST(BadInput, UnknownPathsPoliciesAndPinsAreToldPlainly) {
  FakeReplica replica(Answering(JsonReply(200, "{}")));
  RouterFixture router({replica.origin()});
  for (const char* target : {"/", "/v1", "/v2/chat/completions", "/healthz2", "/ember/other"}) {
    const auto reply = router.Ask(Post("{}", "", target));
    EXPECT_EQ(reply.status(), 404) << target;
    EXPECT_THAT(reply.body, HasSubstr("\"code\":\"unknown_url\"")) << target;
  }
  const auto policy = router.Ask(Post("{}", "x-ember-policy: best\r\n"));
  EXPECT_EQ(policy.status(), 400);
  EXPECT_THAT(policy.body, HasSubstr("cache_aware"));
  const auto pin = router.Ask(Post("{}", "x-ember-pin: r9\r\n"));
  EXPECT_EQ(pin.status(), 400);
  EXPECT_THAT(pin.body, HasSubstr("r9"));
  EXPECT_EQ(router.Ask(Post("{}", "", "/metrics")).status(), 405);
  EXPECT_EQ(replica.requests(), 0);
}

TEST(Limits, TooManyUnderWayIs429WithRetryAfterAndNobodyElseSuffers) {
  Signal release;
  FakeReplica replica([&](TestSocket& peer, const WireMessage&) {
    release.Await();
    peer.Send(JsonReply(200, "{}"));
  });
  RouterFixture router({replica.origin()}, [](ServiceOptions& o) { o.max_in_flight = 2; });
  std::vector<TestSocket> clients;
  for (int i = 0; i < 2; ++i) {
    clients.push_back(router.Client());
    clients.back().Send(Post("{}"));
  }
  ASSERT_TRUE(http::Eventually([&] { return replica.requests() == 2; }));
  const WireMessage refused = router.Ask(Post("{}"));
  EXPECT_EQ(refused.status(), 429);
  EXPECT_EQ(refused.Field("Retry-After"), "1");
  EXPECT_THAT(refused.body, HasSubstr("\"error\":{"));
  EXPECT_EQ(router.Ask(Get("/health")).status(), 200);
  release.Set();
  for (TestSocket& client : clients) EXPECT_EQ(client.ReadMessage().status(), 200);
  EXPECT_EQ(router.Ask(Post("{}")).status(), 200);
}

TEST(NoReplica, TheDoorOpensAndSaysToComeBack) {
  uint16_t free_port;
  {
    FakeReplica gone(Answering(""));
    free_port = gone.origin().port;
  }
  RouterFixture router({http::Origin{"127.0.0.1", free_port}}, nullptr, 0);
  const WireMessage reply = router.Ask(Post("{}"));
  EXPECT_EQ(reply.status(), 503);
  EXPECT_EQ(reply.Field("Retry-After"), "1");
  EXPECT_EQ(router.Ask(Get("/health")).status(), 503);
  FakeReplica back(Answering(JsonReply(200, "{}")), free_port);
  ASSERT_TRUE(router.AwaitUsable(1));
  EXPECT_EQ(router.Ask(Post("{}")).status(), 200);
  EXPECT_EQ(router.Ask(Get("/health")).status(), 200);
  RouterFixture none({});
  EXPECT_EQ(none.Ask(Post("{}")).status(), 503);
}

}  // namespace
}  // namespace ember::router
