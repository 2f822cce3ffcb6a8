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

}  // namespace
}  // namespace ember::router
