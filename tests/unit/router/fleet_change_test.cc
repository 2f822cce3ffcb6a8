// Replicas that come, change and go while requests run (D27-D29, A16).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <set>
#include <thread>

#include "tests/unit/router/admin_fixture.h"

namespace ember::router {
namespace {

using http::Eventually;
using http::Signal;
using http::TestSocket;
using http::WireMessage;
using testing::HasSubstr;
using testing::Not;

std::string ReplicaJson(const std::string& id, const FakeReplica& replica,
                        const std::string& more = "") {
  return "{\"id\":\"" + id + "\",\"http\":\"" + replica.origin().ToString() + "\"" + more + "}";
}

TEST(Admin, AddsDrainsResumesAndRemoves) {
  FakeReplica one(Answering(JsonReply(200, "{}"))), two(Answering(JsonReply(200, "{}")));
  RouterFixture router({one.origin()}, AdminOnDoor);
  const auto added = router.Ask(Call("POST", "/admin/replicas", kToken,
                                     ReplicaJson("b", two, ",\"weight\":2,\"key\":\"s3cret\"")));
  ASSERT_EQ(added.status(), 201) << added.body;
  ASSERT_TRUE(router.AwaitUsable(2));
  EXPECT_EQ(router.Ask(Post("{}", "x-ember-pin: b\r\n")).status(), 200);
  const std::string list = router.Ask(Call("GET", "/admin/replicas")).body;
  EXPECT_THAT(list, HasSubstr("\"id\":\"b\",\"state\":\"up\""));
  EXPECT_THAT(list, HasSubstr("\"source\":\"admin\""));
  EXPECT_THAT(list, Not(HasSubstr("s3cret")));
  EXPECT_EQ(router.Ask(Call("POST", "/admin/replicas/b/drain")).status(), 200);
  EXPECT_EQ(router.Ask(Post("{}", "x-ember-pin: b\r\n")).status(), 503);
  EXPECT_THAT(router.Ask(Call("GET", "/admin/replicas/b")).body, HasSubstr("\"draining\""));
  EXPECT_EQ(router.Ask(Call("POST", "/admin/replicas/b/resume")).status(), 200);
  EXPECT_EQ(router.Ask(Post("{}", "x-ember-pin: b\r\n")).status(), 200);
  EXPECT_EQ(router.Ask(Call("DELETE", "/admin/replicas/b")).status(), 200);
  EXPECT_EQ(router.Ask(Post("{}", "x-ember-pin: b\r\n")).status(), 400) << "there is none";
  EXPECT_EQ(router.Ask(Call("DELETE", "/admin/replicas/b")).status(), 404);
}

TEST(Admin, RefusesWhoMayNotAndWhatIsWrong) {
  FakeReplica one(Answering(JsonReply(200, "{}")));
  RouterFixture router({one.origin()}, AdminOnDoor);
  for (const char* headers : {"", "Authorization: Bearer t0kem\r\n", "Authorization: t0ken\r\n",
                              "Authorization: Bearer t0ken2\r\n"}) {
    const WireMessage refused = router.Ask(Call("GET", "/admin/replicas", headers));
    EXPECT_EQ(refused.status(), 401) << headers;
    EXPECT_THAT(refused.body, HasSubstr("\"type\":\"authentication_error\""));
    EXPECT_THAT(refused.body, Not(HasSubstr("t0ken")));
  }
  const std::pair<std::string, int> wrong[] = {
      {"", 400},
      {"[]", 400},
      {"{\"id\":\"x\"}", 400},
      {"{\"id\":\"x\",\"http\":\"a:1\",\"ranks\":[1]}", 400},
      {"{\"id\":\"x\",\"http\":\"a:1\",\"key_file\":\"/etc/passwd\"}", 400},
      {"{\"id\":\"x\",\"http\":\"a:1\",\"colour\":\"red\"}", 400},
      {std::string(100000, '['), 400},
      {ReplicaJson("r1", one), 409}};
  for (const auto& [body, status] : wrong) {
    const WireMessage refused = router.Ask(Call("POST", "/admin/replicas", kToken, body));
    EXPECT_EQ(refused.status(), status) << body.substr(0, 100);
    EXPECT_THAT(refused.body, HasSubstr("\"error\":{\"message\":"));
  }
  EXPECT_EQ(router.Ask(Call("PUT", "/admin/replicas")).status(), 405);
  EXPECT_EQ(router.Ask(Call("POST", "/admin/replicas/r1/explode")).status(), 404);
  RouterFixture closed({one.origin()});
  EXPECT_EQ(closed.Ask(Call("GET", "/admin/replicas")).status(), 404) << "nobody asked for it";
}

TEST(Admin, OnItsOwnAddressItNeedsNoTokenButNoWebPageEither) {
  FakeReplica one(Answering(JsonReply(200, "{}")));
  RouterFixture router({one.origin()}, [](ServiceOptions& o) {
    o.admin.listen = http::Origin{"127.0.0.1", 0};
  });
  const auto ask = [&](std::string_view request) {
    TestSocket client = TestSocket::ConnectTo(router.service->admin_port());
    client.Send(request);
    return client.ReadMessage();
  };
  EXPECT_EQ(ask(Call("GET", "/admin/replicas", "")).status(), 200);
  EXPECT_EQ(ask(Call("GET", "/admin/status", "")).status(), 200);
  EXPECT_EQ(ask(Post("{}")).status(), 404) << "requests go through the door";
  EXPECT_EQ(
      ask(Call("POST", "/admin/replicas/r1/drain", "Origin: http://evil.example\r\n")).status(),
      403);
  EXPECT_EQ(router.Ask(Call("GET", "/admin/replicas", "")).status(), 404);
}

TEST(Drain, RequestsUnderWayEndWellAndTheReplicaIsThenLeftAlone) {
  Signal finish;
  FakeReplica slow([&](TestSocket& peer, const WireMessage&) {
    peer.Send(kStreamBegun);
    finish.Await();
    peer.Send("9\r\ndata: 2\n\n\r\n0\r\n\r\n");
  });
  FakeReplica other(Answering(JsonReply(200, "{}")));
  RouterFixture router({slow.origin(), other.origin()}, AdminOnDoor);
  TestSocket client = router.Client();
  client.Send(Post("{\"stream\":true}", "x-ember-pin: r1\r\n"));
  ASSERT_TRUE(client.ReadUntil("data: 1\n\n"));
  const auto removed = router.Ask(Call("DELETE", "/admin/replicas/r1"));
  EXPECT_THAT(removed.body, HasSubstr("\"in_flight\":1"));
  const int probes = slow.probes();
  for (int i = 0; i < 4; ++i) EXPECT_EQ(router.Ask(Post("{}")).status(), 200);
  EXPECT_EQ(slow.requests(), 1);
  finish.Set();
  EXPECT_TRUE(client.ReadUntil("data: 2\n\n\r\n0\r\n\r\n")) << "to its end";
  EXPECT_EQ(slow.probes(), probes);
}

class CountingListener final : public ReplicaListener {
 public:
  void OnStateChanged(const Endpoint&) override { changes.fetch_add(1); }
  std::atomic<int> changes{0};
};

TEST(Drain, OfTheRouterListenersMayGoAfterwardsThoughReplicasStillChange) {
  FakeReplica replica(Answering(JsonReply(200, "{}")));
  FakeAgents agents;
  ServiceOptions options;
  options.router.default_policy = FindPolicy("round_robin");
  options.health.probe_interval = milliseconds(10);
  options.replicas.push_back({.id = "r1", .http = replica.origin()});
  Service service(options, agents);
  CountingListener listener;
  service.AddListener(&listener);
  ASSERT_TRUE(service.Start().ok());
  const auto state = [&] { return service.GetStatus()->replicas.at(0).state; };
  ASSERT_TRUE(Eventually([&] { return state() == "up"; }));
  service.Drain(Duration::zero());
  const int told = listener.changes;
  EXPECT_GT(told, 0);
  replica.SetHealth(503);
  ASSERT_TRUE(Eventually([&] { return state() == "ejected"; }));
  EXPECT_EQ(listener.changes, told);
}

TEST(Reload, AHundredSwapsUnderLoadLoseNoRequestAndLeaveNothingBehind) {  // D29
  FakeReplica a(Answering(JsonReply(200, "{}"))), b(Answering(JsonReply(200, "{}")));
  RouterFixture router({a.origin()}, AdminOnDoor);
  std::atomic<bool> stop{false};
  std::array<std::atomic<int>, 3> answered{};  // by client
  std::atomic<int> failed{0};
  std::vector<std::thread> load;
  for (auto& count : answered) {
    load.emplace_back([&] {
      TestSocket client = router.Client();
      while (!stop) {
        client.Send(Post("{}"));
        (client.ReadMessage().status() == 200 ? count : failed).fetch_add(1);
      }
    });
  }
  // What each client had under way is over.
  const auto all_went_on = [&] {
    std::array<int, 3> before{};
    std::copy(answered.begin(), answered.end(), before.begin());
    return Eventually([&] {
      return std::equal(answered.begin(), answered.end(), before.begin(),
                        [](int now, int then) { return now > then + 1; });
    });
  };
  FakeReplica* now = &a;
  FakeReplica* next = &b;
  std::string now_id = "r1";
  for (int i = 0; i < 100; ++i) {
    const std::string next_id = "swap-" + std::to_string(i);
    ASSERT_EQ(
        router.Ask(Call("POST", "/admin/replicas", kToken, ReplicaJson(next_id, *next))).status(),
        201);
    ASSERT_TRUE(router.AwaitUsable(2));
    ASSERT_EQ(router.Ask(Call("DELETE", "/admin/replicas/" + now_id)).status(), 200);
    ASSERT_TRUE(all_went_on());
    ASSERT_TRUE(Eventually([&] { return router.Status().replicas.size() == 1; }));
    const int left = now->requests(), probes = now->probes();
    ASSERT_TRUE(all_went_on());
    EXPECT_EQ(now->requests(), left) << "who was removed is sent nothing";
    EXPECT_LE(now->probes(), probes + 1);  // one may have been on its way
    std::swap(now, next);
    now_id = next_id;
  }
  stop = true;
  for (std::thread& t : load) t.join();
  EXPECT_EQ(failed, 0);
  EXPECT_GT(answered[0] + answered[1] + answered[2], 1000);
  EXPECT_EQ(router.Status().replicas.size(), 1u);
  const std::string metrics = router.Page("/metrics");
  const size_t at = metrics.find("\nember_upstream_connections ");
  EXPECT_LE(std::stoi(metrics.substr(at + 28)), 5) << "sockets do not pile up";
}

TEST(Ranks, EveryRequestNamesOneThatItsReplicaHas) {  // A16
  FakeReplica two(Answering(JsonReply(200, "{}"))), four(Answering(JsonReply(200, "{}")));
  RouterFixture router(
      {two.origin(), four.origin()},
      [](ServiceOptions& o) {
        o.replicas[0].ranks = 2;
        o.replicas[1].ranks = 4;
        o.replicas[1].first_rank = 8;
      },
      6);
  TestSocket client = router.Client();
  for (const char* policy : {"round_robin", "random", "least_loaded", "cache_aware"}) {
    for (int i = 0; i < 100; ++i) {
      client.Send(Post("{}", "x-ember-policy: " + std::string(policy) + "\r\n"));
      ASSERT_EQ(client.ReadMessage().status(), 200);
    }
  }
  std::set<std::string> of_two, of_four;
  for (int i = 0; i < two.requests(); ++i) {
    of_two.insert(two.Request(static_cast<size_t>(i)).Field("X-data-parallel-rank"));
  }
  for (int i = 0; i < four.requests(); ++i) {
    of_four.insert(four.Request(static_cast<size_t>(i)).Field("X-data-parallel-rank"));
  }
  EXPECT_EQ(of_two, (std::set<std::string>{"0", "1"}));
  EXPECT_EQ(of_four, (std::set<std::string>{"10", "11", "8", "9"}));
}

std::string VllmMetrics(int running, int waiting) {
  return "vllm:num_requests_running{engine=\"0\"} " + std::to_string(running) +
         "\nvllm:num_requests_waiting{engine=\"0\"} " + std::to_string(waiting) +
         "\nvllm:cache_config_info{block_size=\"16\",num_gpu_blocks=\"100\"} 1\n";
}

TEST(Load, OfOtherRoutersIsSeenInTheEnginesOwnFigures) {  // D25
  FakeReplica one(Answering(JsonReply(200, "{}"))), two(Answering(JsonReply(200, "{}")));
  one.SetMetrics(VllmMetrics(4, 3));
  two.SetMetrics(VllmMetrics(1, 0));
  RouterFixture router({one.origin(), two.origin()}, [](ServiceOptions& o) {
    o.router.default_policy = FindPolicy("least_loaded");
    o.load_interval = milliseconds(10);
    o.replicas[0].key = "s3cret";
  });
  ASSERT_TRUE(Eventually([&] { return router.Status().replicas[0].load.waiting == 3; }));
  ASSERT_TRUE(Eventually([&] { return router.Status().replicas[1].load.running == 1; }));
  for (int i = 0; i < 5; ++i) EXPECT_EQ(router.Ask(Post("{}")).Field("x-ember-replica"), "r2");
  one.SetMetrics(VllmMetrics(0, 0));
  ASSERT_TRUE(Eventually([&] { return router.Status().replicas[0].load.waiting == 0; }));
  EXPECT_EQ(router.Ask(Post("{}")).Field("x-ember-replica"), "r1");
  one.SetMetrics(VllmMetrics(9, 0));
  ASSERT_TRUE(Eventually([&] { return router.Status().replicas[0].load.running == 9; }));
  one.SetMetrics("");
  ASSERT_TRUE(Eventually([&] { return router.Status().replicas[0].load.running == 0; }))
      << "figures that come no more are forgotten";
}

TEST(Load, OfAFullReplicaIsAskedForStillAndTakesNoRequestsPlace) {
  Signal end;
  FakeReplica replica([&](TestSocket& peer, const WireMessage&) {
    end.Await();
    peer.Send(JsonReply(200, "{}"));
  });
  replica.SetMetrics(VllmMetrics(1, 0));
  RouterFixture router({replica.origin()}, [](ServiceOptions& o) {
    o.load_interval = milliseconds(1);
    o.health.probe_interval = milliseconds(1);
    o.upstream.max_connections_per_origin = 1;
  });
  // Whatever is being asked of the replica just then.
  TestSocket client = router.Client();
  client.Send(Post("{}"));
  ASSERT_TRUE(Eventually([&] { return replica.requests() == 1; }));
  for (const int running : {7, 8, 9}) {
    replica.SetMetrics(VllmMetrics(running, 0));
    EXPECT_TRUE(Eventually([&] {
      return router.Status().replicas[0].load.running == static_cast<uint32_t>(running);
    })) << running;
  }
  end.Set();
  EXPECT_EQ(client.ReadMessage().status(), 200);
  for (int i = 0; i < 50; ++i) EXPECT_EQ(router.Ask(Post("{}")).status(), 200) << i;
}

TEST(Fleet, MayHaveHundredsOfReplicas) {
  FakeReplica replica(Answering(JsonReply(200, "{}")));
  RouterFixture router(std::vector<http::Origin>(200, replica.origin()));
  TestSocket client = router.Client();
  std::set<std::string> asked;
  for (int i = 0; i < 200; ++i) {
    client.Send(Post("{}"));
    asked.insert(client.ReadMessage().Field("x-ember-replica"));
  }
  EXPECT_EQ(asked.size(), 200u);
}

}  // namespace
}  // namespace ember::router
