// Prompts that break whoever takes them, asked again in other words (D31).
#include <gtest/gtest.h>

#include "tests/unit/router/router_fixture.h"

namespace ember::router {
namespace {

using http::TestSocket;
using http::WireMessage;

TEST(Poison, APromptThatBreaksReplicasIsKnownWhateverElseIsAskedWithIt) {  // D31
  for (const std::string prompt :
       {R"("prompt":"poison")", R"("messages":[{"role":"user","content":"poison"}],"tools":[])",
        R"("input":"poison","instructions":"x")", R"("system":"poison","messages":[])"}) {
    std::atomic<int> broken{0};
    FakeFleet fleet(6, ResettingAt("poison", &broken));
    RouterFixture router(fleet.origins(), NoKeptConnections);
    for (int i = 0; i < 10; ++i) {
      const std::string n = std::to_string(i);
      const std::string body = i % 2 == 0
                                   ? "{\"seed\":" + n + "," + prompt + ",\"stream\":false}"
                                   : "{" + prompt + ", \"user\":\"u" + n + "\",\"f" + n + "\":1}";
      EXPECT_EQ(router.Ask(Post(body)).status(), 502) << body;
    }
    EXPECT_EQ(broken, 3) << prompt;
  }
}

TEST(Poison, ARefusalOfThePromptDoesNotClearIt) {
  std::atomic<int> broken{0};
  FakeFleet fleet(6, [&](TestSocket& peer, const WireMessage& r) {
    if (r.body.find("temperature") != r.body.npos) return (void)peer.Send(JsonReply(400, "{}"));
    broken.fetch_add(1);
    peer.Reset();
  });
  RouterFixture router(fleet.origins(), NoKeptConnections);
  for (int i = 0; i < 4; ++i) {
    router.Ask(Post(R"({"prompt":"poison"})"));
    router.Ask(Post(R"({"prompt":"poison","temperature":-1})"));
  }
  EXPECT_EQ(broken, 3);
}

// However long the run is that its client makes of it at one of them.
TEST(Poison, WhatFailedAtAnotherReplicaIsNothingAgainstThisOne) {
  const auto script = [](TestSocket& peer, const WireMessage& request) {
    const bool poison = request.body.find("poison") != request.body.npos;
    peer.Send(JsonReply(poison ? 500 : 200, "{}"));
  };
  FakeReplica one(script), two(script), three(script);
  RouterFixture router({one.origin(), two.origin(), three.origin()});
  for (int i = 0; i < 60; ++i) EXPECT_EQ(router.Ask(Post(R"({"prompt":"good"})")).status(), 200);
  const auto ask = [&](const std::string& pin) {
    return router.Ask(Post(R"({"prompt":"poison"})", "x-ember-pin: " + pin + "\r\n")).status();
  };
  EXPECT_EQ(ask("r2"), 500);
  for (int i = 0; i < 30; ++i) EXPECT_EQ(ask("r1"), 500);
  EXPECT_EQ(router.Status().replicas[0].state, "up");
}

// Four replicas that answer poison so, what is wrong with an error that is the client's, all else
// with 200, and live on until they are killed.
class DyingFleet {
 public:
  explicit DyingFleet(const std::string& to_poison) {
    std::vector<http::Origin> origins;
    for (int i = 0; i < 4; ++i) {
      replicas_.push_back(
          std::make_unique<FakeReplica>([to_poison](TestSocket& peer, const WireMessage& request) {
            if (request.body.find("wrong") != request.body.npos) {
              return (void)peer.Send(StreamReply(kClientsError));
            }
            if (request.body.find("poison") == request.body.npos) {
              return (void)peer.Send(JsonReply(200, "{}"));
            }
            peer.Send(to_poison);
            if (to_poison == kStreamBegun) peer.Close();
          }));
      origins.push_back(replicas_.back()->origin());
    }
    // They are probed again for nothing but a failure.
    router_ = std::make_unique<RouterFixture>(origins, [](ServiceOptions& o) {
      NoKeptConnections(o);
      o.health.probe_interval = seconds(3600);
    });
  }

  FakeReplica& at(size_t n) { return *replicas_[n]; }
  // The n-th is to answer this prompt.
  WireMessage Ask(size_t n, const std::string& prompt) const {
    return router_->Ask(
        Post("{\"prompt\":\"" + prompt + "\"}", "x-ember-pin: r" + std::to_string(n + 1) + "\r\n"));
  }
  void Kill(size_t n) { replicas_[n].reset(); }
  bool AwaitUsable(size_t n) const { return router_->AwaitUsable(n); }

 private:
  static constexpr std::string_view kClientsError =
      "data: {\"error\":{\"message\":\"too long\",\"code\":400}}\n\ndata: [DONE]\n\n";
  std::vector<std::unique_ptr<FakeReplica>> replicas_;
  std::unique_ptr<RouterFixture> router_;
};

const std::string kError = JsonReply(500, "{}");
const std::string kErrorEvent = StreamReply(
    "data: 1\n\ndata: {\"error\":{\"message\":\"EngineCore died\",\"code\":500}}\n\n"
    "data: [DONE]\n\n");

// D31: so an engine goes whose API server outlives its core.
TEST(Poison, AReplicaThatDiesAMomentAfterItsErrorWasBrokenByWhatItAnsweredSo) {
  for (const std::string& last_words : {kError, kErrorEvent, std::string(kStreamBegun)}) {
    DyingFleet fleet(last_words);
    for (size_t i = 0; i < 3; ++i) {
      fleet.Ask(i, "poison");
      EXPECT_EQ(fleet.at(i).requests(), 1) << last_words;
      EXPECT_EQ(fleet.Ask(i, "good").status(), 200);
      EXPECT_EQ(fleet.Ask(i, "wrong").status(), 200);
      fleet.Kill(i);
      ASSERT_TRUE(fleet.AwaitUsable(3 - i));
    }
    const WireMessage refused = fleet.Ask(3, "poison");
    EXPECT_EQ(refused.status(), 502) << last_words;
    EXPECT_NE(refused.body.find("breaks_replicas"), refused.body.npos);
    EXPECT_EQ(fleet.Ask(3, "good").status(), 200);
    EXPECT_EQ(fleet.Ask(3, "wrong").status(), 200) << "that was its client's fault";
    EXPECT_EQ(fleet.at(3).requests(), 2);
  }
}

TEST(Poison, AReplicaThatSaysThatItsEngineIsDeadNeedNotGoFirst) {
  DyingFleet fleet(kErrorEvent);
  for (size_t i = 0; i < 3; ++i) {
    fleet.at(i).SetHealth(503);
    fleet.Ask(i, "poison");
    ASSERT_TRUE(fleet.AwaitUsable(3 - i));
  }
  EXPECT_EQ(fleet.Ask(3, "poison").status(), 502);
}

TEST(Poison, AnErrorOfReplicasThatLiveOnIsNothingAgainstWhatTheyAnsweredSo) {
  for (const std::string& error : {kError, kErrorEvent, std::string(kStreamBegun)}) {
    DyingFleet fleet(error);
    for (int times = 0; times < 2; ++times) {
      for (size_t i = 0; i < 4; ++i) {
        EXPECT_EQ(fleet.Ask(i, "poison").status(), error == kError ? 500 : 200);
        ASSERT_TRUE(http::Eventually([&] { return fleet.at(i).probes() >= 2; }));
      }
    }
  }
}

}  // namespace
}  // namespace ember::router
