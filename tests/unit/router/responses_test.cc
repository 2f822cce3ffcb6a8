// Responses are kept by the engine that made them: what is asked of one later goes there.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "router/front/response_id.h"
#include "router/response_homes.h"
#include "tests/unit/router/router_fixture.h"

namespace ember::router {
namespace {

using http::TestSocket;
using http::WireMessage;
using testing::HasSubstr;

// Keeps what it made: 404 for the rest.
class ResponseMaker {
 public:
  explicit ResponseMaker(char name) : name_(name) {}
  FakeReplica replica{[this](TestSocket& peer, const WireMessage& r) { Serve(peer, r); }};

 private:
  void Serve(TestSocket& peer, const WireMessage& request) {
    const std::string mine = std::string("resp_") + name_;
    if (!request.head.starts_with("POST /v1/responses HTTP")) {
      return (void)peer.Send(
          JsonReply(request.head.find(mine) == std::string::npos ? 404 : 200, "{}"));
    }
    const bool follows = request.body.find("previous_response_id") != std::string::npos;
    if (follows && request.body.find(mine) == std::string::npos) {
      return (void)peer.Send(JsonReply(404, "{}"));
    }
    const std::string id = mine + std::to_string(++made_);
    const std::string made =
        "{\"metadata\":{\"note\":\"\\\"id\\\":\\\"resp_x\\\"\"},\"id\":\"" + id + "\"}";
    if (request.body.find("stream") == std::string::npos)
      return (void)peer.Send(JsonReply(200, made));
    peer.Send(StreamReply("event: response.created\ndata: {\"response\":" + made +
                          "}\n\ndata: [DONE]\n\n"));
  }
  const char name_;
  int made_ = 0;
};

std::string IdIn(const std::string& reply) { return ResponseIdFinder().Feed(reply); }

std::string RoundRobin(std::string_view body) {
  return Post(body, "x-ember-policy: round_robin\r\n", "/v1/responses");
}

TEST(Responses, WhatIsAskedOfOneGoesToTheReplicaThatMadeIt) {
  ResponseMaker a('a'), b('b'), c('c');
  RouterFixture router({a.replica.origin(), b.replica.origin(), c.replica.origin()});
  std::set<std::string> makers;
  for (const char* body : {"{\"input\":\"x\"}", "{\"input\":\"x\",\"stream\":true}"}) {
    for (int i = 0; i < 3; ++i) {
      const WireMessage made = router.Ask(RoundRobin(body));
      const std::string id = IdIn(made.body);
      ASSERT_THAT(id, testing::StartsWith("resp_")) << made.body;
      const std::string home = made.Field("x-ember-replica");
      makers.insert(home);
      for (int again = 0; again < 3; ++again) {
        for (const std::string& request :
             {Get("/v1/responses/" + id), Get("/v1/responses/" + id + "/input_items?limit=1"),
              Post("", "", "/v1/responses/" + id + "/cancel"),
              RoundRobin("{\"input\":\"y\", \"previous_response_id\" : \"" + id + "\"}")}) {
          const WireMessage reply = router.Ask(request);
          EXPECT_EQ(reply.status(), 200) << request;
          EXPECT_EQ(reply.Field("x-ember-replica"), home);
        }
      }
    }
  }
  EXPECT_EQ(makers.size(), 3u);
}

TEST(Responses, OfAReplicaThatIsOutAre503AndOfOneThatIsGoneAnybodys) {
  ResponseMaker a('a'), b('b');
  RouterFixture router({a.replica.origin(), b.replica.origin()}, [](ServiceOptions& o) {
    o.health.probe_interval = milliseconds(20);
    o.admin.on_door = true;
    o.admin.token = "t";
  });
  const std::string id = IdIn(router.Ask(Post("{}", "x-ember-pin: r1\r\n", "/v1/responses")).body);
  a.replica.SetHealth(500);
  ASSERT_TRUE(router.AwaitUsable(1));
  const WireMessage out = router.Ask(Get("/v1/responses/" + id));
  EXPECT_EQ(out.status(), 503);
  EXPECT_THAT(out.body, HasSubstr("r1"));
  router.Ask("DELETE /admin/replicas/r1 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer t\r\n\r\n");
  EXPECT_EQ(router.Ask(Get("/v1/responses/" + id)).status(), 404) << "the other one's word";
}

TEST(ResponseIdFinder, FindsTheIdWhereverPiecesAreCutAndNoOther) {
  const std::string reply =
      "{\"output\":[{\"id\":\"msg_1\"},{\"id\":7}],\"previous_response_id\":\"resp_0\",\"text\":"
      "\"\\\"id\\\":\\\"resp_x\\\"\",\"id\" : \"resp_1\",\"x\":{\"id\":\"resp_2\"}}";
  for (size_t cut = 0; cut <= reply.size(); ++cut) {
    ResponseIdFinder finder;
    const std::string found = finder.Feed(reply.substr(0, cut)) + finder.Feed(reply.substr(cut));
    EXPECT_EQ(found, "resp_1") << cut;
  }
  ResponseIdFinder bounded;
  EXPECT_EQ(bounded.Feed(std::string(1 << 20, 'x')), "");
  EXPECT_EQ(bounded.Feed(reply), "");
}

TEST(ResponseHomes, AreBoundedAndThoseThatAreAskedForStay) {
  const auto home = std::make_shared<Endpoint>(ReplicaConfig{.id = "r"}, HealthOptions());
  ResponseHomes homes;
  const auto is_known = [&](const std::string& id) {
    http::Request request{.method = "GET"};
    request.SetTarget("/v1/responses/" + id);
    return homes.Find(request) != nullptr;
  };
  homes.Remember("resp_mine", home);
  homes.Remember("resp_idle", home);
  for (size_t i = 0; i < ResponseHomes::kMaxResponses; ++i) {
    ASSERT_TRUE(is_known("resp_mine")) << i;
    homes.Remember("resp_" + std::to_string(i), home);
  }
  EXPECT_FALSE(is_known("resp_idle"));
  EXPECT_EQ(homes.size(), ResponseHomes::kMaxResponses);
  const std::string long_id(ResponseHomes::kMaxId + 1, 'x');
  homes.Remember(long_id, home);
  EXPECT_FALSE(is_known(long_id));
}

}  // namespace
}  // namespace ember::router
