// Fleets that change while requests are under way or wait: replicas that flap, come back under
// load, drain, or are exchanged.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "tests/unit/router/slow_replica.h"
#include "tests/unit/support/temp_folder.h"

namespace ember::router {
namespace {

using http::Eventually;
using http::Signal;
using http::TestSocket;
using http::WireMessage;

constexpr char kEnd[] = "9\r\ndata: 2\n\n\r\n0\r\n\r\n";

std::string OrderTo(const std::string& method, const std::string& target) {
  return method + " " + target + " HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer t\r\n\r\n";
}

class UnsteadyFleet : public testing::Test {
 protected:
  static void Adjust(ServiceOptions& o) {
    o.health.probe_interval = milliseconds(5);
    o.admin.on_door = true;
    o.admin.token = "t";
    o.admission.max_wait = seconds(3600);
    o.router.return_time = seconds(3600);
  }
  void Send(const RouterFixture& router, const std::string& headers = "") {
    clients.push_back(router.Client());
    clients.back().Send(Post("{}", headers));
  }
  static bool AwaitWaiting(const RouterFixture& router, int n) {
    return Eventually([&] { return MetricOf(router, "ember_router_waiting") == n; });
  }
  std::vector<TestSocket> clients;
};

TEST_F(UnsteadyFleet, OneThatFlapsCostsNoRequestAndCutsNoStream) {
  Signal finish;
  FakeReplica flapping([&](TestSocket& peer, const WireMessage& request) {
    if (request.Field("X-Long").empty()) return (void)peer.Send(JsonReply(200, "{}"));
    peer.Send(kStreamBegun);
    finish.Await();
    peer.Send(kEnd);
  });
  FakeReplica steady(Answering(JsonReply(200, "{}")));
  RouterFixture router({flapping.origin(), steady.origin()}, Adjust);
  Send(router, "x-ember-pin: r1\r\nX-Long: 1\r\n");
  ASSERT_TRUE(clients[0].ReadUntil("data: 1\n\n"));
  std::atomic<bool> stop{false};
  std::atomic<int> failed{0}, by_flapping{0};
  std::vector<std::thread> load;
  for (int i = 0; i < 4; ++i) {
    load.emplace_back([&] {
      TestSocket client = router.Client();
      while (!stop) {
        client.Send(Post("{}"));
        const WireMessage reply = client.ReadMessage();
        if (reply.status() != 200) failed.fetch_add(1);
        if (reply.Field("x-ember-replica") == "r1") by_flapping.fetch_add(1);
      }
    });
  }
  for (int i = 0; i < 10; ++i) {
    flapping.SetHealth(503);
    EXPECT_TRUE(router.AwaitUsable(1));
    flapping.SetHealth(200);
    const int before = by_flapping;
    EXPECT_TRUE(Eventually([&] { return by_flapping > before; })) << "it has its share again";
  }
  stop = true;
  for (std::thread& t : load) t.join();
  EXPECT_EQ(failed, 0);
  finish.Set();
  EXPECT_TRUE(clients[0].ReadUntil("data: 2\n\n\r\n0\r\n\r\n"));
}

TEST_F(UnsteadyFleet, OneThatComesBackUnderLoadGetsAFewAtFirstAndTheOthersWait) {
  SlowReplica slow;
  RouterFixture router({slow.replica.origin()}, [](ServiceOptions& o) {
    Adjust(o);
    o.health.trial_time = seconds(3600);
  });
  slow.replica.SetHealth(503);
  ASSERT_TRUE(router.AwaitUsable(0));
  slow.replica.SetHealth(200);
  ASSERT_TRUE(router.AwaitUsable(1));
  for (int i = 0; i < 40; ++i) Send(router);
  ASSERT_TRUE(AwaitWaiting(router, 36));
  ASSERT_TRUE(Eventually([&] { return slow.replica.requests() == 4; }));
  slow.Answer(3);
  ASSERT_TRUE(Eventually([&] { return slow.replica.requests() == 7; }));
  EXPECT_EQ(slow.most_at_once(), 4);
  slow.Answer(1);
  EXPECT_TRUE(AwaitWaiting(router, 0)) << "it has proven itself";
  slow.Answer(40);
  for (TestSocket& client : clients) EXPECT_EQ(client.ReadMessage().status(), 200);
}

TEST_F(UnsteadyFleet, OneThatFailsOnTrialUnderLoadGetsNoMoreThanThose) {
  std::atomic<int> status{500};
  FakeReplica bad(AnsweringStatus(status));
  FakeReplica good(Answering(JsonReply(200, "{}")));
  RouterFixture router({bad.origin(), good.origin()}, [](ServiceOptions& o) {
    Adjust(o);
    o.health.first_hold = o.health.longest_hold = milliseconds(50);
  });
  const auto ejections = [&] {
    const std::string page = router.Page("/metrics");
    const std::string name =
        "ember_router_replica_ejections_total{replica=\"r1\",reason=\"server_error\"} ";
    const size_t at = page.find(name);
    return at == page.npos ? 0 : std::stoi(page.substr(at + name.size()));
  };
  std::atomic<bool> stop{false};
  std::vector<std::thread> load;
  for (int i = 0; i < 8; ++i) {
    load.emplace_back([&, i] {
      TestSocket client = router.Client();
      for (int n = 0; !stop; ++n) {
        client.Send(Post("{\"turn\":" + std::to_string(n * 8 + i) + "}"));
        client.ReadMessage();
      }
    });
  }
  EXPECT_TRUE(Eventually([&] { return ejections() >= 5; }));
  const int before = bad.requests();
  const int out = ejections();
  EXPECT_TRUE(Eventually([&] { return ejections() >= out + 4; }));
  EXPECT_LE(bad.requests() - before, (ejections() - out + 1) * 4) << "four at most each time";
  status = 200;
  const int then = bad.requests();
  EXPECT_TRUE(Eventually([&] { return bad.requests() > then + 100; }));
  stop = true;
  for (std::thread& t : load) t.join();
}

TEST_F(UnsteadyFleet, DrainedWithLongStreamsItTakesNothingNewAndEndsThemWell) {
  Signal finish;
  FakeReplica streaming([&](TestSocket& peer, const WireMessage&) {
    peer.Send(kStreamBegun);
    finish.Await();
    peer.Send(kEnd);
  });
  FakeReplica other(Answering(JsonReply(200, "{}")));
  RouterFixture router({streaming.origin(), other.origin()}, [](ServiceOptions& o) {
    Adjust(o);
    o.replicas[0].max_concurrency = 8;
  });
  for (int i = 0; i < 12; ++i) Send(router, "x-ember-pin: r1\r\n");
  ASSERT_TRUE(AwaitWaiting(router, 4));
  ASSERT_TRUE(Eventually([&] { return streaming.requests() == 8; }));
  EXPECT_EQ(router.Ask(OrderTo("POST", "/admin/replicas/r1/drain")).status(), 200);
  EXPECT_TRUE(AwaitWaiting(router, 0)) << "nobody will come back for them";
  for (int i = 0; i < 8; ++i) {
    EXPECT_EQ(router.Ask(Post("{}")).Field("x-ember-replica"), "r2");
  }
  EXPECT_EQ(streaming.requests(), 8);
  finish.Set();
  int whole = 0, refused = 0;
  for (TestSocket& client : clients) {
    const WireMessage reply = client.ReadMessage();
    whole += reply.body == "data: 1\n\ndata: 2\n\n" ? 1 : 0;
    refused += reply.status() == 503 ? 1 : 0;
  }
  EXPECT_EQ(whole, 8);
  EXPECT_EQ(refused, 4);
}

class ExchangedFleet : public UnsteadyFleet {
 protected:
  ~ExchangedFleet() override { std::filesystem::remove_all(folder); }
  // The file names this one and no other, all at once.
  void Name(const std::string& id, const http::Origin& origin) const {
    std::ofstream(folder + "/new") << id << " http=" << origin.ToString() << " max_concurrency=1\n";
    std::filesystem::rename(folder + "/new", folder + "/fleet");
  }
  void Follow(ServiceOptions& o) const {
    Adjust(o);
    o.fleet_file = folder + "/fleet";
    o.fleet_file_interval = milliseconds(10);
  }
  const std::string folder = MakeTempFolder();
};

TEST_F(ExchangedFleet, KeepsWhoWaits) {
  SlowReplica old, next;
  Name("old", old.replica.origin());
  RouterFixture router({}, [&](ServiceOptions& o) { Follow(o); });
  ASSERT_TRUE(router.AwaitUsable(1));
  for (int i = 0; i < 9; ++i) Send(router);
  ASSERT_TRUE(AwaitWaiting(router, 8));
  Name("next", next.replica.origin());
  EXPECT_TRUE(Eventually([&] { return next.replica.requests() == 1; }));
  EXPECT_TRUE(AwaitWaiting(router, 7));
  next.Answer(8);
  old.Answer(1);
  for (TestSocket& client : clients) EXPECT_EQ(client.ReadMessage().status(), 200);
  EXPECT_EQ(old.replica.requests(), 1);
  EXPECT_EQ(next.replica.requests(), 8);
}

TEST_F(ExchangedFleet, TellsWhoWaitsWhenNoneOfTheNewIsThere) {
  SlowReplica old;
  const http::Origin nobody = FakeReplica(Answering("")).origin();
  Name("old", old.replica.origin());
  RouterFixture router({}, [&](ServiceOptions& o) { Follow(o); });
  ASSERT_TRUE(router.AwaitUsable(1));
  for (int i = 0; i < 3; ++i) Send(router);
  ASSERT_TRUE(AwaitWaiting(router, 2));
  Name("never", nobody);
  EXPECT_TRUE(AwaitWaiting(router, 0));
  old.Answer(1);
  int refused = 0;
  for (TestSocket& client : clients) refused += client.ReadMessage().status() == 503 ? 1 : 0;
  EXPECT_EQ(refused, 2);
}

}  // namespace
}  // namespace ember::router
