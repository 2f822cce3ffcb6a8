// Whatever is refused, and wherever, can be found again: an id in the reply, a line in the access
// log, a count.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "tests/unit/router/router_fixture.h"
#include "tests/unit/support/temp_folder.h"

namespace ember::router {
namespace {

using http::TestSocket;
using http::WireMessage;
using testing::HasSubstr;
using testing::Not;

constexpr char kId[] = "x-ember-request-id: mine\r\n";

class Refused : public testing::Test {
 protected:
  ~Refused() override { std::filesystem::remove_all(folder); }

  std::vector<std::string> Log() const {
    std::ifstream file(folder + "/log");
    std::vector<std::string> lines;
    for (std::string line; std::getline(file, line);) lines.push_back(line);
    return lines;
  }

  const std::string folder = MakeTempFolder();
};

TEST_F(Refused, HasAnIdALineInTheLogAndACount) {
  FakeReplica replica(Answering(JsonReply(200, "{}")));
  const std::string large(2000, 'x');
  const std::tuple<int, bool, std::string> all[] = {
      // status, id is the client's, request
      {413, true, Post(large, kId)},
      {431, true, Post("{}", kId + ("X-Large: " + large + "\r\n"))},
      {417, true, Post("{}", std::string(kId) + "Expect: wonders\r\n")},
      {400, true, Post("{}", std::string(kId) + "x-ember-policy: random\r\n")},
      {400, true, Post("{}", std::string(kId) + "x-ember-pin: r1\r\n")},
      {404, true, "GET /nowhere HTTP/1.1\r\nHost: a\r\n" + std::string(kId) + "\r\n"},
      {415, true, Post("\x1f\x8b", std::string(kId) + "Content-Encoding: gzip\r\n")},
      {400, false, "GET / HTTP/1.1\r\nno field\r\n\r\n"},
      {405, false, "TRACE /v1/models HTTP/1.1\r\nHost: a\r\n\r\n"},
      {408, false, "POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\n"}};
  std::vector<std::string> ids;
  std::string metrics;
  {
    RouterFixture router({replica.origin()}, [&](ServiceOptions& o) {
      o.telemetry.access_log = folder + "/log";
      o.router.allow_policy_override = false;
      o.server.max_body_bytes = 1000;
      o.server.max_header_bytes = 1500;
      o.server.header_timeout = seconds(2);
    });
    for (const auto& [status, own_id, request] : all) {
      const WireMessage reply = router.Ask(request);
      EXPECT_EQ(reply.status(), status) << request.substr(0, 100) << "\n" << reply.body;
      ids.push_back(reply.Field("x-ember-request-id"));
      EXPECT_EQ(ids.back() == "mine", own_id) << request.substr(0, 100);
      EXPECT_NE(ids.back(), "");
    }
    metrics = router.Page("/metrics");
  }
  const std::vector<std::string> lines = Log();
  ASSERT_EQ(lines.size(), ids.size());
  for (size_t i = 0; i < lines.size(); ++i) {
    EXPECT_THAT(lines[i], HasSubstr("\"id\":\"" + ids[i] + "\""));
    EXPECT_THAT(lines[i], HasSubstr("\"status\":" + std::to_string(std::get<0>(all[i])) +
                                    ",\"outcome\":\"refused: "));
  }
  for (const auto& [status, count] :
       std::map<std::string, int>{{"413", 1}, {"408", 1}, {"404", 1}, {"400", 3}, {"4xx", 4}}) {
    EXPECT_THAT(metrics, HasSubstr("ember_router_requests_total{policy=\"none\",route=\"none\","
                                   "status=\"" +
                                   status + "\"} " + std::to_string(count) + "\n"));
  }
  EXPECT_EQ(replica.requests(), 0);
}

// Who is refused nothing is noted all the same.
TEST_F(Refused, WhoLeavesWithinTheBodyHasALineInTheLog) {
  FakeReplica replica(Answering(JsonReply(200, "{}")));
  const std::string head = "POST /v1/completions HTTP/1.1\r\nHost: a\r\n";
  {
    RouterFixture router({replica.origin()},
                         [&](ServiceOptions& o) { o.telemetry.access_log = folder + "/log"; });
    for (const std::string& begun : {head + kId + "Content-Length: 100\r\n\r\n{",
                                     head + kId + "Transfer-Encoding: chunked\r\n\r\n5\r\n{",
                                     head}) {  // of the last one it is not known what it is
      TestSocket client = router.Client();
      client.Send(begun);
      client.ShutdownWrite();
      EXPECT_EQ(client.ReadAll(), "");
    }
  }
  const std::vector<std::string> lines = Log();
  ASSERT_EQ(lines.size(), 2u);
  for (const std::string& line : lines) {
    EXPECT_THAT(line, HasSubstr("\"id\":\"mine\""));
    EXPECT_THAT(line, HasSubstr("\"status\":499,\"outcome\":\"client_gone\""));
  }
  EXPECT_EQ(replica.requests(), 0);
}

TEST_F(Refused, ACompressedBodyIsNamedInTheShapeOfTheApi) {
  FakeReplica replica(Answering(JsonReply(200, "{}")));
  RouterFixture router({replica.origin()});
  const WireMessage reply =
      router.Ask(Post("\x1f\x8b", "Content-Encoding: gzip\r\n", "/v1/messages"));
  EXPECT_EQ(reply.status(), 415);
  EXPECT_THAT(reply.body, HasSubstr("{\"type\":\"error\""));
  EXPECT_THAT(reply.body, HasSubstr("Content-Encoding: gzip"));
  EXPECT_EQ(router.Ask(Post("{}", "Content-Encoding: Identity\r\n")).status(), 200);
}

TEST_F(Refused, WhoWaitedInVainLearnsForWhom) {
  FakeReplica replica([](TestSocket& peer, const WireMessage&) { peer.AwaitClose(); });
  RouterFixture router({replica.origin()}, [](ServiceOptions& o) {
    o.forwarder.first_byte_timeout = milliseconds(50);
  });
  const WireMessage reply = router.Ask(Post("{}"));
  EXPECT_EQ(reply.status(), 504);
  EXPECT_EQ(reply.Field("x-ember-replica"), "r1");
}

TEST_F(Refused, NotForTheCaseOfItsScheme) {
  FakeReplica replica(Answering(JsonReply(200, "{}")));
  RouterFixture router({replica.origin()}, [](ServiceOptions& o) {
    o.admin.on_door = true;
    o.admin.token = "t0ken";
  });
  const auto status = [&](const std::string& credentials) {
    return router
        .Ask("GET /admin/replicas HTTP/1.1\r\nHost: a\r\nAuthorization: " + credentials +
             "\r\n\r\n")
        .status();
  };
  EXPECT_EQ(status("bEARER  t0ken"), 200);
  EXPECT_EQ(status("Bearer T0ken"), 401);
  EXPECT_EQ(status("Bearer"), 401);
  EXPECT_EQ(status("Basic t0ken"), 401);
}

TEST_F(Refused, CountsInTheLogAreTheEnginesOrAbsent) {
  FakeReplica counts(Answering(JsonReply(200, R"({"usage":{"prompt_tokens":7}})")));
  FakeReplica silent(Answering(JsonReply(200, "{}")));
  {
    RouterFixture router({counts.origin(), silent.origin()},
                         [&](ServiceOptions& o) { o.telemetry.access_log = folder + "/log"; });
    for (const char* pin : {"r1", "r2"}) {
      router.Ask(Post("{}", "x-ember-pin: " + std::string(pin) + "\r\n"));
    }
  }
  const std::vector<std::string> lines = Log();
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_THAT(lines[0], HasSubstr("\"prompt_tokens\":7,"));
  EXPECT_THAT(lines[1], Not(HasSubstr("prompt_tokens")));
  EXPECT_THAT(lines[0] + lines[1], Not(HasSubstr("predicted_ttft_ms"))) << "nothing predicted it";
}

TEST_F(Refused, TheLogsTenantIsTheHeaderWhereThatIsTrusted) {
  FakeReplica replica(Answering(JsonReply(200, "{}")));
  for (const bool trusted : {true, false}) {
    RouterFixture router({replica.origin()}, [&](ServiceOptions& o) {
      o.telemetry.access_log = folder + "/log";
      o.router.trust_tenant_header = trusted;
    });
    for (const char* tenant : {"x-ember-tenant: acme\r\n", ""}) {
      router.Ask(Post("{}", std::string("Authorization: Bearer key\r\n") + tenant));
    }
  }
  const std::vector<std::string> lines = Log();
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_THAT(lines[0], HasSubstr("\"tenant\":\"acme\""));
  for (const size_t digest : {1, 2, 3}) EXPECT_THAT(lines[digest], Not(HasSubstr("acme")));
}

}  // namespace
}  // namespace ember::router
