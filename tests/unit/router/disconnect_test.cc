// A client that leaves takes its request along: the replica's connection is closed at once and the
// counters are right (D17).
#include <gtest/gtest.h>

#include "tests/unit/router/router_fixture.h"
#include "tests/unit/support/sanitized.h"

namespace ember::router {
namespace {

using http::Signal;
using http::TestSocket;
using http::WireMessage;
using std::chrono::steady_clock;

// Stated bound 100 ms; sanitizer builds on a busy machine get more.
constexpr milliseconds kBound{kSanitized ? 1000 : 100};

constexpr std::string_view kHalfReply =
    "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{\"a\":";

bool Idle(const RouterFixture& router) {
  const ReplicaReport r = router.Status().replicas[0];
  return r.under_way == 0 &&
         router.Page("/metrics").find("ember_router_in_flight 0\n") != std::string::npos;
}

struct Leaving {
  const char* name;
  std::string_view begun;  // of the reply, when the client leaves
  bool reset;
};

class ClientLeaves : public testing::TestWithParam<Leaving> {};

TEST_P(ClientLeaves, TheReplicaIsLetGoInTimeAndNothingIsCountedAsUnderWay) {
  Signal ready, closed;
  FakeReplica replica([&](TestSocket& peer, const WireMessage&) {
    peer.Send(GetParam().begun);
    ready.Set();
    if (peer.AwaitClose()) closed.Set();
    peer.Close();
  });
  RouterFixture router({replica.origin()});
  TestSocket client = router.Client();
  client.Send(Post("{\"stream\":true}"));
  ASSERT_TRUE(ready.Await());
  EXPECT_EQ(router.Status().replicas[0].under_way, 1u);
  if (!GetParam().begun.empty()) ASSERT_TRUE(client.ReadUntil("1"));
  const auto left_at = steady_clock::now();
  GetParam().reset ? client.Reset() : client.Close();
  ASSERT_TRUE(closed.Await());
  EXPECT_LT(steady_clock::now() - left_at, kBound);
  EXPECT_TRUE(http::Eventually([&] { return Idle(router); }));
  EXPECT_EQ(replica.requests(), 1) << "nobody else is asked";
}

INSTANTIATE_TEST_SUITE_P(All, ClientLeaves,
                         testing::Values(Leaving{"prefill_close", "", false},
                                         Leaving{"prefill_reset", "", true},
                                         Leaving{"decode_close", kStreamBegun, false},
                                         Leaving{"decode_reset", kStreamBegun, true},
                                         Leaving{"whole_reset", kHalfReply, true}),
                         [](const auto& info) { return info.param.name; });

TEST(Disconnect, HalfCloseAloneIsNotAnAbort) {
  Signal half_closed;
  FakeReplica replica([&](TestSocket& peer, const WireMessage&) {
    half_closed.Await();
    EXPECT_TRUE(peer.StaysSilent(milliseconds(150)));
    peer.Send(JsonReply(200, "{\"whole\":1}"));
  });
  RouterFixture router({replica.origin()});
  TestSocket client = router.Client();
  client.Send(Post("{}"));
  ASSERT_TRUE(http::Eventually([&] { return replica.requests() == 1; }));
  client.ShutdownWrite();
  half_closed.Set();
  EXPECT_EQ(client.ReadMessage().body, "{\"whole\":1}");
}

TEST(Disconnect, ManyAtOnceInAllStages) {
  constexpr int kClients = 200;
  std::atomic<int> closed{0}, number{0};
  FakeReplica replica([&](TestSocket& peer, const WireMessage&) {
    if (number.fetch_add(1) % 2 == 0) peer.Send(kStreamBegun);
    if (peer.AwaitClose()) closed.fetch_add(1);
    peer.Close();
  });
  RouterFixture router({replica.origin()});
  std::vector<TestSocket> clients;
  for (int i = 0; i < kClients; ++i) {
    clients.push_back(router.Client());
    clients.back().Send(Post(i % 3 == 0 ? "{}" : "{\"stream\":true}"));
  }
  ASSERT_TRUE(http::Eventually([&] { return replica.requests() == kClients; }));
  EXPECT_EQ(router.Status().replicas[0].under_way, static_cast<uint32_t>(kClients));
  for (int i = 0; i < kClients; ++i) i % 2 == 0 ? clients[i].Close() : clients[i].Reset();
  EXPECT_TRUE(http::Eventually([&] { return closed == kClients; }));
  EXPECT_TRUE(http::Eventually([&] { return Idle(router); }));
}

TEST(Disconnect, StoppingTheRouterFinishesWhatIsUnderWay) {
  Signal stopping;
  FakeReplica replica([&](TestSocket& peer, const WireMessage&) {
    peer.Send(kStreamBegun);
    stopping.Await();
    peer.Send("9\r\ndata: 2\n\n\r\n0\r\n\r\n");
  });
  RouterFixture router({replica.origin()});
  TestSocket client = router.Client();
  client.Send(Post("{\"stream\":true}"));
  ASSERT_TRUE(client.ReadUntil("data: 1\n\n"));
  std::thread stop([&] { router.service->Stop(seconds(20)); });
  const uint16_t port = router.service->port();
  EXPECT_TRUE(http::Eventually([&] {
    TestSocket late = TestSocket::ConnectTo(port);
    return late.fd() < 0 || late.AwaitClose(milliseconds(50));
  }));
  stopping.Set();
  EXPECT_TRUE(client.ReadUntil("data: 2\n\n"));
  EXPECT_TRUE(client.ReadUntil("0\r\n\r\n"));
  stop.join();
}

// Neither that it works nor that it does not.
TEST(Disconnect, AClientThatLeftSaysNothingOfTheReplica) {
  FakeReplica bad([](TestSocket& peer, const WireMessage& request) {
    if (request.body.find("leave") == request.body.npos) return (void)peer.Send(JsonReply(500, ""));
    peer.AwaitClose();
  });
  FakeReplica good(Answering(JsonReply(200, "{}")));
  RouterFixture router({bad.origin(), good.origin()});
  const std::string pin = "x-ember-pin: r1\r\n";
  for (int i = 0; i < 10 && router.Status().replicas[0].state == "up"; ++i) {
    const std::string number = std::to_string(i);
    router.Ask(Post("{\"n\":" + number + "}", pin));
    const int before = bad.requests();
    TestSocket client = router.Client();
    client.Send(Post("{\"leave\":" + number + "}", pin));
    http::Eventually(
        [&] { return bad.requests() > before || router.Status().replicas[0].state != "up"; });
    client.Close();
    ASSERT_TRUE(http::Eventually([&] { return router.Status().replicas[0].under_way == 0; }));
  }
  EXPECT_EQ(router.Status().replicas[0].state, "ejected");
}

}  // namespace
}  // namespace ember::router
