// Many clients at once: that leave, that are too many, that are slow, that meet a hung replica.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/router/router_fixture.h"
#include "tests/unit/support/sanitized.h"

namespace ember::router {
namespace {

using boost::asio::awaitable;
using http::TestSocket;
using http::WireMessage;
using testing::HasSubstr;

// A replica for thousands of requests: it sends one event, then waits for the client's end.
class PatientReplica {
 public:
  PatientReplica() {
    http::HttpServerOptions options;
    options.max_connections = 10000;
    auto listening = http::HttpServer::Listen(
        loop_, options, [this](http::Request& request, http::ResponseWriter& writer) {
          return Answer(request, writer);
        });
    EMBER_CHECK(listening.ok(), "listen");
    server_ = *std::move(listening);
  }
  http::Origin origin() const { return {"127.0.0.1", server_->port()}; }
  int under_way() const { return under_way_.load(); }
  void FinishAll() { finish_ = true; }

 private:
  awaitable<void> Answer(http::Request& request, http::ResponseWriter& writer) {
    if (request.path == "/health" || request.body == "{\"quick\":1}") {
      (void)(co_await writer.SendJson(200, "{}")).ok();
      co_return;
    }
    ++under_way_;
    if (request.body.find("stream") != std::string::npos) {
      (void)(co_await writer.Begin({.headers = {{"Content-Type", "text/event-stream"}}}, {},
                                   "data: 1\n\n"))
          .ok();
    }
    if (request.body.find("flood") != std::string::npos) {
      const std::string piece = "data: " + std::string(16 << 10, 'x') + "\n\n";
      while ((co_await writer.Write(piece)).ok()) {
      }
    }
    while (!finish_ && (co_await http::SleepFor(milliseconds(50), &writer.gone())).ok()) {
    }
    if (!writer.gone().cancelled()) {
      (void)(writer.started() ? co_await writer.End() : co_await writer.SendJson(200, "{}")).ok();
    }
    --under_way_;
  }

  std::atomic<int> under_way_{0};
  std::atomic<bool> finish_{false};
  http::HttpLoop loop_;
  std::unique_ptr<http::HttpServer> server_;
};

constexpr char kStream[] = "{\"stream\":true}";

std::string Quick() { return Post("{\"quick\":1}"); }

// Probes that are late there say nothing of the replica.
void OfABusyMachine(ServiceOptions& o) { o.health.probe_timeout = seconds(600); }

// D17.
TEST(Crowd, AThousandThatLeaveAtOnceAreAllNoticed) {
  const int clients = kSanitized ? 200 : 1000;
  PatientReplica replica;
  RouterFixture router({replica.origin()}, OfABusyMachine);
  std::vector<TestSocket> crowd;
  for (int i = 0; i < clients; ++i) {
    crowd.push_back(router.Client());
    crowd.back().Send(Post(i % 3 == 0 ? "{}" : kStream));
  }
  ASSERT_TRUE(http::Eventually([&] { return replica.under_way() == clients; }));
  EXPECT_EQ(router.Status().replicas[0].under_way, static_cast<uint32_t>(clients));
  const auto left_at = std::chrono::steady_clock::now();
  for (int i = 0; i < clients; ++i) i % 2 == 0 ? crowd[i].Close() : crowd[i].Reset();
  EXPECT_TRUE(http::Eventually([&] { return replica.under_way() == 0; }));
  EXPECT_LT(std::chrono::steady_clock::now() - left_at, seconds(10));
  EXPECT_TRUE(http::Eventually([&] { return router.Status().replicas[0].under_way == 0; }));
  EXPECT_EQ(router.Ask(Quick()).status(), 200);
}

// D20.
TEST(Crowd, TooManyAreServedOrToldToComeBack) {
  const int clients = kSanitized ? 400 : 2000;
  const int served = clients / 4;
  PatientReplica replica;
  RouterFixture router({replica.origin()}, [&](ServiceOptions& o) {
    OfABusyMachine(o);
    o.max_in_flight = static_cast<size_t>(served);
    o.server.max_connections = static_cast<size_t>(clients / 2);
  });
  std::vector<TestSocket> crowd;
  for (int i = 0; i < clients; ++i) {
    crowd.push_back(router.Client());
    crowd.back().Send(Post(kStream));
  }
  std::map<int, int> statuses;
  for (TestSocket& client : crowd) {
    const std::string head = client.ReadUntil("\r\n\r\n").value_or("");
    const int status = WireMessage{.head = head, .body = ""}.status();
    ++statuses[status];
    if (status != 200) {
      EXPECT_THAT(head, HasSubstr("Retry-After: 1\r\n"));
      client.Close();
    }
  }
  EXPECT_EQ(statuses[200], served);
  EXPECT_EQ(statuses[429] + statuses[503], clients - served);
  replica.FinishAll();
  for (TestSocket& client : crowd) {
    if (client.fd() >= 0) EXPECT_TRUE(client.ReadUntil("0\r\n\r\n"));
    client.Close();
  }
  EXPECT_TRUE(http::Eventually([&] { return router.Ask(Quick()).status() == 200; }));
}

// Slow heads, slow bodies and readers that do not read, with somebody healthy among them.
TEST(Crowd, SlowClientsHarmNobodyAndEndInTime) {
  const int each = kSanitized ? 100 : 700;
  PatientReplica replica;
  RouterFixture router({replica.origin()}, [](ServiceOptions& o) {
    OfABusyMachine(o);
    o.server.header_timeout = milliseconds(2500);
    o.server.body_timeout = milliseconds(2500);
    o.server.write_timeout = milliseconds(2500);
  });
  struct SlowClient {
    TestSocket socket;
    const char* more;
  };
  std::vector<SlowClient> trickling;
  std::vector<TestSocket> silent, readers;
  for (int i = 0; i < each; ++i) {
    for (const auto& [begin, more] :
         {std::pair("P", "G"),
          {"POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: 67000000\r\n\r\n{", "x"}}) {
      TestSocket client = router.Client();
      client.Send(begin);
      if (i % 10 == 0) {
        silent.push_back(std::move(client));
      } else {
        trickling.push_back({std::move(client), more});
      }
    }
    if (i % 10 != 0) continue;
    readers.push_back(router.Client());
    readers.back().Send(Post("{\"stream\":true,\"flood\":1}"));
  }
  // Bytes that trickle in do not make more time: whoever goes on so is ended all the same.
  const auto patience = std::chrono::steady_clock::now() + seconds(60);
  while (!trickling.empty() && std::chrono::steady_clock::now() < patience) {
    for (SlowClient& client : trickling) client.socket.Send(client.more);
    EXPECT_EQ(router.Ask(Quick()).status(), 200);
    std::erase_if(trickling, [](SlowClient& client) {
      return !client.socket.StaysSilent(std::chrono::milliseconds(0));
    });
    LetTimePass(milliseconds(100));
  }
  EXPECT_TRUE(trickling.empty()) << trickling.size();
  // Who went on after it was told may have found a reset; who did not hears why it ended.
  for (TestSocket& client : silent) EXPECT_EQ(client.ReadMessage().status(), 408);
  EXPECT_TRUE(http::Eventually([&] { return replica.under_way() == 0; }));
  EXPECT_EQ(router.Ask(Quick()).status(), 200);
}

// D19.
TEST(Crowd, AHungReplicaHoldsUpOnlyWhatItHas) {
  const int requests = kSanitized ? 100 : 500;
  http::Signal done;
  FakeReplica hung([&](TestSocket& peer, const WireMessage&) {
    done.Await();
    peer.Close();
  });
  PatientReplica a, b, c;
  RouterFixture router({hung.origin(), a.origin(), b.origin(), c.origin()}, [](ServiceOptions& o) {
    o.router.default_policy = FindPolicy("least_loaded");
    o.forwarder.first_byte_timeout = milliseconds(1000);
  });
  std::map<int, int> statuses;
  std::vector<TestSocket> waiting;
  for (int i = 0; i < requests; ++i) {
    TestSocket client = router.Client();
    client.Send(Quick());
    const auto head = client.ReadUntil("\r\n\r\n", std::chrono::milliseconds(300));
    if (head) {
      ++statuses[WireMessage{.head = *head, .body = ""}.status()];
    } else {
      waiting.push_back(std::move(client));
    }
  }
  EXPECT_LT(waiting.size(), static_cast<size_t>(requests) / 4);
  for (TestSocket& client : waiting) ++statuses[client.ReadMessage().status()];
  EXPECT_EQ(statuses[200] + statuses[504], requests);
  EXPECT_GE(statuses[200], requests * 9 / 10);
  done.Set();
}

// D14: dead before the first byte: another replica; after it: an error event and the end.
TEST(Crowd, AReplicaThatDiesWithinItsReply) {
  for (const int events : {0, 1, 50}) {
    for (const char* half : {"", "data: {\"cho"}) {
      FakeReplica dying([&](TestSocket& peer, const WireMessage&) {
        if (events > 0 || *half != '\0') {
          peer.Send(
              "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: "
              "chunked\r\n\r\n");
          for (int i = 0; i < events; ++i) peer.Send("9\r\ndata: 1\n\n\r\n");
          if (*half != '\0') peer.Send(std::string("b\r\n") + half + "\r\n");
        }
        peer.Reset();
      });
      FakeReplica other(Answering(StreamReply("data: other\n\ndata: [DONE]\n\n")));
      RouterFixture router({dying.origin(), other.origin()});
      std::string got;
      for (int i = 0; i < 2 && dying.requests() == 0; ++i) {
        const WireMessage reply = router.Ask(Post(kStream));
        EXPECT_EQ(reply.status(), 200);
        EXPECT_TRUE(reply.complete);
        got = reply.body;
      }
      // Nobody is asked again after it broke a fresh connection; that of the probes may have been
      // dead.
      ASSERT_GE(dying.requests(), 1);
      ASSERT_LE(dying.requests(), 2);
      EXPECT_THAT(got, testing::EndsWith("data: [DONE]\n\n"));
      // A reset may overtake what was sent before it: then the other one answers.
      if (got != "data: other\n\ndata: [DONE]\n\n") {
        EXPECT_GT(events + (*half != '\0' ? 1 : 0), 0);
        EXPECT_THAT(got, HasSubstr("data: {\"error\":{"));
      }
    }
  }
}

}  // namespace
}  // namespace ember::router
