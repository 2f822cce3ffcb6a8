// A fleet of several models when replicas break, are full, or hold what only an adapter may use.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/router/models_fixture.h"
#include "tests/unit/router_events/engine_model.h"
#include "tests/unit/router_events/fake_publisher.h"

namespace ember::router {
namespace {

using http::Eventually;
using http::Signal;
using http::TestSocket;
using http::WireMessage;

TEST(ModelRetry, StaysWithinTheModel) {
  FakeReplica bad([](TestSocket& peer, const WireMessage&) { peer.Reset(); });
  FakeReplica other(Answering(JsonReply(200, "{}"))), same(Answering(JsonReply(200, "{}")));
  RouterFixture alone({bad.origin(), other.origin()}, Declaring({{"a"}, {"b"}}));
  EXPECT_EQ(alone.Ask(Post(Body("a"))).status(), 502);
  RouterFixture router({bad.origin(), other.origin(), same.origin()},
                       Declaring({{"a"}, {"b"}, {"a"}}));
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(router.Ask(Post(Body("a"))).Field("x-ember-replica"), "r3");
  }
  EXPECT_EQ(other.requests(), 0);
}

// Answers when it is told to.
FakeReplica::Script AnsweringAfter(Signal& signal) {
  return [&signal](TestSocket& peer, const WireMessage&) {
    signal.Await();
    peer.Send(JsonReply(200, "{}"));
  };
}

// A full model's requests hold up nobody else's, not even their own tenant's or with a full queue.
TEST(ModelQueue, AFullModelDoesNotHoldUpAnother) {
  Signal finish_one, finish_two;
  FakeReplica one(AnsweringAfter(finish_one)), two(AnsweringAfter(finish_two));
  RouterFixture router({one.origin(), two.origin()}, [](ServiceOptions& o) {
    Declaring({{"a", "law"}, {"b"}})(o);
    for (ReplicaConfig& r : o.replicas) r.max_concurrency = 1;
    o.admission.max_waiting = 40;
  });
  std::vector<TestSocket> clients, others;
  const auto send = [&](const char* model, std::vector<TestSocket>* to) {
    to->push_back(router.Client());
    to->back().Send(Post(Body(model)));
  };
  for (int i = 0; i < 41; ++i) send("a", &clients);
  ASSERT_TRUE(Eventually([&] { return router.Status().waiting == 40; }));
  EXPECT_EQ(router.Ask(Post(Body("a"))).status(), 429);
  EXPECT_EQ(router.Ask(Post(Body("law"))).status(), 429) << "it waits for the same replica";
  for (int i = 0; i < 3; ++i) send("b", &others);
  ASSERT_TRUE(Eventually([&] { return router.Status().waiting == 42; }));
  finish_two.Set();
  for (TestSocket& client : others) EXPECT_EQ(client.ReadMessage().status(), 200);
  EXPECT_EQ(one.requests(), 1);
  finish_one.Set();
  for (TestSocket& client : clients) EXPECT_EQ(client.ReadMessage().status(), 200);
}

// Publishes events of what the test says.
struct Publishing {
  FakePublisher publisher;
  FakeReplica replica{Answering(JsonReply(200, "{}"))};
};

// A14 through the door: engines serve an adapter as a model, and what they hold for it is nobody
// else's.
TEST(ModelAdapters, AnAdaptersRequestsGoWhereItsBlocksAre) {
  Publishing one, two;
  for (Publishing* p : {&one, &two}) {
    p->replica.SetModelsText(R"({"data":[{"id":"m"},{"id":"law","parent":"m"}]})");
  }
  const EngineModel::Tokens prompt = PromptOf(1, 640);
  RouterFixture router({one.replica.origin(), two.replica.origin()}, [&](ServiceOptions& o) {
    AskingForModels(o);
    o.router.default_policy = FindPolicy("prefix");
    o.replicas[0].events = one.publisher.address();
    o.replicas[0].replay = one.publisher.replay_address();
    o.replicas[1].events = two.publisher.address();
    o.replicas[1].replay = two.publisher.replay_address();
  });
  router.agents.answer = [&](ReplicaNumber, std::string_view) -> Result<TokenizedPrompt> {
    TokenizedPrompt tokens{.token_count = static_cast<uint32_t>(prompt.size())};
    tokens.tokens = prompt;
    return tokens;
  };
  ASSERT_TRUE(AwaitModels(router, {{"m", "law"}, {"m", "law"}}));
  const auto held_by = [&](const std::string& replica, const char* model) {
    const std::string page = router.Ask(Post(Body(model), "", "/admin/explain")).body;
    const std::string before = "{\"replica\":\"" + replica + "\",\"device_tokens\":";
    const size_t at = page.find(before);
    return at == page.npos ? -1 : std::stoi(page.substr(at + before.size()));
  };
  const auto knows = [&](size_t blocks_of_one, size_t blocks_of_two) {
    const StatusReport status = router.Status();
    return status.replicas[0].held.any == blocks_of_one &&
           status.replicas[1].held.any == blocks_of_two;
  };
  one.publisher.Publish(EngineModel({.block_size = 16}).Store(prompt));
  ASSERT_TRUE(Eventually([&] { return knows(40, 0); }));
  EXPECT_EQ(held_by("r1", "m"), 640);
  EXPECT_EQ(held_by("r1", "law"), 0) << "the same tokens, computed without the adapter";
  two.publisher.Publish(EngineModel({.block_size = 16, .adapter = "law"}).Store(prompt));
  ASSERT_TRUE(Eventually([&] { return knows(40, 40); }));
  EXPECT_EQ(held_by("r1", "law"), 0);
  EXPECT_EQ(held_by("r2", "law"), 640);
  EXPECT_EQ(held_by("r2", "m"), 0);
  EXPECT_EQ(router.Ask(Post(Body("law"))).Field("x-ember-replica"), "r2");
  EXPECT_EQ(router.Ask(Post(Body("m"))).Field("x-ember-replica"), "r1");
}

}  // namespace
}  // namespace ember::router
