// The gRPC sides: following an agent's stream, asking it for tokens, and the router's own port.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <cmath>
#include <future>
#include <limits>

#include "proto/rpc/router.grpc.pb.h"
#include "router/fleet/agent_message.h"
#include "router/fleet/agent_watcher.h"
#include "router/status_service.h"
#include "router/tokenize/grpc_agent_client.h"
#include "tests/unit/router/fake_agent.h"
#include "tests/unit/router/router_fixture.h"

namespace ember::router {
namespace {

using http::Eventually;
using testing::HasSubstr;

// A router of one replica whose agent is followed and asked over gRPC.
struct Followed {
  explicit Followed(const std::string& agent_address)
      : router({replica.origin()},
               [](ServiceOptions& o) { o.router.default_policy = FindPolicy("cache_aware"); }),
        watcher(std::make_unique<AgentWatcher>(router.service->loop(), router.service->feed(), 0,
                                               agent_address)) {}
  ~Followed() {
    router.service->Drain(Duration::zero());
    watcher.reset();
  }
  ReplicaReport Status() const { return router.Status().replicas[0]; }
  bool AwaitHeld(uint64_t blocks) const {
    return Eventually([&] { return Status().held.any == blocks; });
  }

  FakeReplica replica{Answering(JsonReply(200, "{}"))};
  RouterFixture router;
  std::unique_ptr<AgentWatcher> watcher;
};

TEST(AgentWatcher, SnapshotThenChangesThenReports) {
  rpc::Snapshot snapshot = SnapshotOf("r1");
  rpc::HeldPrefix* held = snapshot.add_held();
  held->set_slot(0);
  held->set_block_hashes(Hashes(1, 10));
  FakeAgent agent(snapshot);
  Followed f(agent.address());
  ASSERT_TRUE(f.AwaitHeld(10));
  EXPECT_EQ(f.Status().model, "m");
  EXPECT_TRUE(f.Status().agent_connected);
  agent.Hold(1, Hashes(2, 5));
  ASSERT_TRUE(f.AwaitHeld(15));
  agent.Hold(0, "");
  ASSERT_TRUE(f.AwaitHeld(5));
  rpc::AgentEvent report;
  report.mutable_report()->set_healthy(false);
  report.mutable_report()->set_running(2);
  agent.Push(report);
  ASSERT_TRUE(Eventually([&] { return f.Status().load.running == 2; }));
  EXPECT_FALSE(f.Status().healthy);
  EXPECT_EQ(agent.watches(), 1);
}

TEST(AgentWatcher, WatchesAgainAfterAGapACutAndARestart) {
  rpc::Snapshot snapshot = SnapshotOf("r1");
  snapshot.add_held()->set_block_hashes(Hashes(1, 10));
  auto agent = std::make_unique<FakeAgent>(snapshot);
  Followed f(agent->address());
  ASSERT_TRUE(f.AwaitHeld(10));
  agent->Hold(1, Hashes(2, 5), 1);  // a number is missing: the change can't be trusted
  ASSERT_TRUE(Eventually([&] { return agent->watches() == 2; }));
  ASSERT_TRUE(f.AwaitHeld(10));
  agent->CutStreams();
  ASSERT_TRUE(Eventually([&] { return agent->watches() == 3; }));
  ASSERT_TRUE(f.AwaitHeld(10));
  const int port = agent->port();
  agent.reset();
  ASSERT_TRUE(Eventually([&] { return !f.Status().agent_connected; }));
  EXPECT_EQ(f.Status().held.any, 0u) << "a replica's entries go when it goes";
  EXPECT_TRUE(f.Status().healthy) << "its probes still succeed";
  FakeAgent back(SnapshotOf("r1"), port);
  ASSERT_TRUE(Eventually([&] { return f.Status().agent_connected; }));
  back.Hold(3, Hashes(4, 7));
  ASSERT_TRUE(f.AwaitHeld(7));
}

TEST(AgentWatcher, ABrokenAgentHarmsNobody) {
  FakeAgent agent(SnapshotOf("r1"));
  Followed f(agent.address());
  ASSERT_TRUE(Eventually([&] { return f.Status().agent_connected; }));
  agent.Hold(0, "15 bytes it is.");
  ASSERT_TRUE(Eventually([&] { return agent.watches() == 2; }));
  EXPECT_EQ(f.router.Ask(Post("{}")).status(), 200);
}

TEST(AgentMessage, NumbersThatAreNoneCountAsUnknown) {
  for (const double bad : {std::nan(""), -1.0, 0.0, std::numeric_limits<double>::infinity()}) {
    rpc::ReplicaReport message;
    message.set_prefill_linear_ms(bad);
    message.set_prefill_context_ms(bad);
    message.set_load_tokens_per_ms(bad);
    const AgentReport report = ReadReport(message);
    EXPECT_EQ(report.prefill.linear_ms, PrefillModel().linear_ms);
    EXPECT_EQ(report.prefill.context_ms, 0);
    EXPECT_EQ(report.load_tokens_per_ms, 0);
  }
}

TEST(AgentMessage, SizesAreChecked) {
  EXPECT_TRUE(ReadChain("").ok());
  EXPECT_FALSE(ReadChain("x").ok());
  EXPECT_FALSE(ReadChain(std::string((1u << 20) * 16 + 16, 'x')).ok());
  EXPECT_FALSE(ReadNamespace("short").ok());
  EXPECT_FALSE(ReadNamespace("")->has_value());
  rpc::Snapshot snapshot = SnapshotOf(std::string(1000, 'x'));
  EXPECT_FALSE(ReadSnapshot(snapshot).ok());
  snapshot = SnapshotOf("r");
  for (int i = 0; i < 2000; ++i) snapshot.add_held();
  EXPECT_FALSE(ReadSnapshot(snapshot).ok());
  snapshot = SnapshotOf("r");
  snapshot.set_tokens_per_block(1u << 30);
  EXPECT_FALSE(ReadSnapshot(snapshot).ok());
}

// Asks for tokens as the router does.
Result<TokenizedPrompt> Ask(const std::string& address, std::string body,
                            Duration deadline = seconds(10)) {
  http::HttpLoop loop(1);
  GrpcAgentClient client;
  Endpoint endpoint({.id = "r1", .http = {}, .grpc = address}, {});
  endpoint.members = {0};
  client.OnAdded(endpoint);
  std::promise<Result<TokenizedPrompt>> answer;
  loop.Spawn([](GrpcAgentClient& c, std::string b, Duration d,
                std::promise<Result<TokenizedPrompt>>& out) -> boost::asio::awaitable<void> {
    out.set_value(co_await c.Tokenize(0, "/v1/completions", b, d));
  }(client, std::move(body), deadline, answer));
  Result<TokenizedPrompt> result = answer.get_future().get();
  loop.Stop();
  return result;
}

TEST(GrpcAgentClient, AsksWithPathAndBodyAndChecksTheAnswer) {
  FakeAgent agent(SnapshotOf("r1"));
  agent.tokenize = [](const rpc::TokenizeRequest& request, rpc::TokenizeReply* reply) {
    EXPECT_EQ(request.path(), "/v1/completions");
    EXPECT_EQ(request.body(), std::string("b\0dy", 4));
    reply->set_token_count(170);
    reply->set_block_hashes(Hashes(1, 10));
    reply->set_namespace_id(std::string(16, '\7'));
    return grpc::Status::OK;
  };
  const auto prompt = Ask(agent.address(), std::string("b\0dy", 4));
  ASSERT_TRUE(prompt.ok()) << prompt.status().ToString();
  EXPECT_EQ(prompt->token_count, 170u);
  EXPECT_EQ(prompt->chain.size(), 10u);
}

// What the environment says of the way to the world is not for agents, which are in the fleet.
TEST(GrpcAgentClient, NeitherItNorAWatcherGoesThroughAProxy) {
  ASSERT_EQ(setenv("http_proxy", "http://127.0.0.1:1", 1), 0);
  rpc::Snapshot snapshot = SnapshotOf("r1");
  snapshot.add_held()->set_block_hashes(Hashes(1, 10));
  FakeAgent agent(snapshot);
  agent.tokenize = [](const rpc::TokenizeRequest&, rpc::TokenizeReply* reply) {
    reply->set_token_count(1);
    reply->set_namespace_id(std::string(16, '\7'));
    return grpc::Status::OK;
  };
  {
    Followed f(agent.address());
    EXPECT_TRUE(f.AwaitHeld(10));
    EXPECT_TRUE(Ask(agent.address(), "{}").ok());
  }
  unsetenv("http_proxy");
}

TEST(GrpcAgentClient, FailuresHaveTheirReason) {
  FakeAgent agent(SnapshotOf("r1"));
  const auto code = [&] { return Ask(agent.address(), "{}").status().code(); };
  agent.tokenize = [](const auto&, rpc::TokenizeReply*) {
    return grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "no messages");
  };
  EXPECT_EQ(code(), StatusCode::kInvalid);
  agent.tokenize = [](const auto&, rpc::TokenizeReply*) { return grpc::Status::OK; };
  EXPECT_EQ(code(), StatusCode::kUnavailable) << "no identity yet";
  agent.tokenize = [](const auto&, rpc::TokenizeReply* reply) {
    reply->set_namespace_id(std::string(16, '\7'));
    reply->set_block_hashes("short");
    return grpc::Status::OK;
  };
  EXPECT_EQ(code(), StatusCode::kInvalid);
  http::Signal never;
  agent.tokenize = [&](const auto&, rpc::TokenizeReply*) {
    never.Await();
    return grpc::Status::OK;
  };
  EXPECT_EQ(Ask(agent.address(), "{}", milliseconds(100)).status().code(), StatusCode::kDeadline);
  never.Set();
  const std::string address = agent.address();
  agent.Stop();
  EXPECT_EQ(Ask(address, "{}", seconds(2)).status().code(), StatusCode::kUnavailable);
}

class GrpcAnswers : public testing::Test {
 protected:
  ~GrpcAnswers() override { loop_.Stop(); }
  void Add(ReplicaNumber n, const std::string& address) {
    Endpoint endpoint({.id = "r" + std::to_string(n), .http = {}, .grpc = address}, {});
    endpoint.members = {n};
    client_->OnAdded(endpoint);
  }
  std::future<Result<std::string_view>> Give(ReplicaNumber n, PrefetchHint hint,
                                             Duration deadline = seconds(10)) {
    std::promise<Result<std::string_view>> answer;
    auto future = answer.get_future();
    loop_.Spawn([](GrpcAgentClient& client, ReplicaNumber replica, PrefetchHint what,
                   Duration until,
                   std::promise<Result<std::string_view>> out) -> boost::asio::awaitable<void> {
      out.set_value(co_await client.Prefetch(replica, std::move(what), until));
    }(*client_, n, std::move(hint), deadline, std::move(answer)));
    return future;
  }

  http::HttpLoop loop_{1};
  std::unique_ptr<GrpcAgentClient> client_ = std::make_unique<GrpcAgentClient>();
};

TEST_F(GrpcAnswers, HintsSayWhatIsWantedAndHearWhatBecomesOfIt) {
  FakeAgent agent(SnapshotOf("r1"));
  agent.prefetch = [](const rpc::PrefetchRequest& request, rpc::PrefetchReply* reply) {
    EXPECT_EQ(request.path(), "/p");
    EXPECT_EQ(request.body(), std::string("b\0dy", 4));
    EXPECT_THAT(request.token_ids(), testing::ElementsAre(1, 2, 3));
    EXPECT_EQ(request.tokens(), 640u);
    reply->set_outcome(rpc::PrefetchReply::NO_ROOM);
    return grpc::Status::OK;
  };
  Add(0, agent.address());
  const auto said = Give(0, {"/p", std::string("b\0dy", 4), {1, 2, 3}, 640}).get();
  ASSERT_TRUE(said.ok()) << said.status().ToString();
  EXPECT_EQ(*said, "no_room");
  agent.prefetch = [](const auto&, rpc::PrefetchReply* reply) {
    reply->set_outcome(static_cast<rpc::PrefetchReply::Outcome>(77));
    return grpc::Status::OK;
  };
  EXPECT_EQ(*Give(0, {}).get(), "unknown") << "of a newer agent";
}

TEST_F(GrpcAnswers, TheLongestPrefixIsAskedForByTheChain) {
  FakeAgent agent(SnapshotOf("r1"));
  agent.longest = [](const rpc::LongestPrefixRequest& request, rpc::LongestPrefixReply* reply) {
    EXPECT_EQ(request.block_hashes(), Hashes(3, 5));
    reply->set_local_blocks(4);
    reply->set_store_blocks(2);
    return grpc::Status::OK;
  };
  Add(0, agent.address());
  const auto ask = [&] {
    std::promise<Result<LongestPrefix>> answer;
    auto future = answer.get_future();
    loop_.Spawn([](GrpcAgentClient& client,
                   std::promise<Result<LongestPrefix>> out) -> boost::asio::awaitable<void> {
      out.set_value(co_await client.AskLongestPrefix(0, *ReadChain(Hashes(3, 5)), seconds(10)));
    }(*client_, std::move(answer)));
    return future.get();
  };
  const auto said = ask();
  ASSERT_TRUE(said.ok()) << said.status().ToString();
  EXPECT_EQ(said->local_blocks, 4u);
  EXPECT_EQ(said->store_blocks, 2u);
  agent.longest = [](const auto&, auto*) {
    return grpc::Status(grpc::StatusCode::UNIMPLEMENTED, "of an older agent");
  };
  EXPECT_EQ(ask().status().code(), StatusCode::kInvalid);
}

TEST_F(GrpcAnswers, AnAgentThatHangsOrIsGoneKeepsNobodyFromHis) {
  http::Signal never;  // outlives the agent that waits for it
  FakeAgent hanging(SnapshotOf("r1")), well(SnapshotOf("r2")), gone(SnapshotOf("r3"));
  hanging.prefetch = [&](const auto&, rpc::PrefetchReply*) {
    never.Await();
    return grpc::Status::OK;
  };
  well.prefetch = [](const auto&, rpc::PrefetchReply* reply) {
    reply->set_outcome(rpc::PrefetchReply::ACCEPTED);
    return grpc::Status::OK;
  };
  Add(0, hanging.address());
  Add(1, well.address());
  Add(2, gone.address());
  gone.Stop();
  std::vector<std::future<Result<std::string_view>>> unanswered;
  for (int i = 0; i < 12; ++i) unanswered.push_back(Give(0, {}, milliseconds(500)));
  EXPECT_EQ(Give(2, {}).get().status().code(), StatusCode::kUnavailable);
  EXPECT_EQ(*Give(1, {}).get(), "accepted");
  client_.reset();  // waits for all
  for (auto& answer : unanswered) {
    EXPECT_EQ(answer.get().status().code(), StatusCode::kDeadline);
  }
  never.Set();
}

TEST(StatusService, SaysOverGrpcWhatThePageSays) {
  FakeReplica replica(Answering(JsonReply(200, "{}", "x-ember-route: remote\r\n")));
  RouterFixture router({replica.origin()},
                       [](ServiceOptions& o) { o.replicas[0].grpc = "127.0.0.1:9"; });
  EXPECT_EQ(router.Ask(Post("{}")).status(), 200);
  auto service =
      StatusService::Listen({"127.0.0.1", 0}, [&] { return router.service->GetStatus(); });
  ASSERT_TRUE(service.ok());
  const http::Origin address{"127.0.0.1", (*service)->port()};
  const auto stub = rpc::Router::NewStub(
      grpc::CreateChannel(address.ToString(), grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  rpc::RouterStatus status;
  ASSERT_TRUE(stub->GetStatus(&context, {}, &status).ok());
  ASSERT_EQ(status.replicas_size(), 1);
  EXPECT_EQ(status.replicas(0).id(), "r1");
  EXPECT_TRUE(status.replicas(0).healthy());
  EXPECT_EQ(status.replicas(0).requests(), 1u);
  EXPECT_EQ(status.replicas(0).routed_remote(), 1u);
  EXPECT_EQ(status.default_policy(), "round_robin");
  EXPECT_FALSE(StatusService::Listen(address, [&] { return router.service->GetStatus(); }).ok())
      << "the port is taken";
}

}  // namespace
}  // namespace ember::router
