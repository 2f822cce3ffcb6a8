#include "client/agent/agent_service.h"

#include <grpcpp/grpcpp.h>

#include "proto/rpc/agent.grpc.pb.h"
#include "tests/unit/agent/agent_fixture.h"

namespace ember::agent {
namespace {

class AgentServiceTest : public AgentFixture {
 protected:
  void SetUp() override {
    StartAll();
    auto server = AgentServer::Listen({"127.0.0.1", 0}, "a", *agent_);
    ASSERT_TRUE(server.ok()) << server.status().ToString();
    server_ = *std::move(server);
    stub_ = rpc::Agent::NewStub(grpc::CreateChannel("127.0.0.1:" + std::to_string(server_->port()),
                                                    grpc::InsecureChannelCredentials()));
  }
  void TearDown() override { server_.reset(); }

  rpc::TokenizeReply Tokenize(const std::string& prompt) {
    grpc::ClientContext context;
    rpc::TokenizeRequest request;
    request.set_path("/completion");
    request.set_body("{\"prompt\":\"" + prompt + "\"}");
    rpc::TokenizeReply reply;
    const grpc::Status status = stub_->Tokenize(&context, request, &reply);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return reply;
  }

  std::unique_ptr<AgentServer> server_;
  std::unique_ptr<rpc::Agent::Stub> stub_;
};

TEST_F(AgentServiceTest, WatchersSeeWhatARequestLeavesInItsSlot) {
  const std::string wanted = Tokenize(Prompt(200)).block_hashes();
  ASSERT_EQ(wanted.size(), 3 * 16u);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + seconds(20));
  auto reader = stub_->Watch(&context, {});
  rpc::AgentEvent event;
  ASSERT_TRUE(reader->Read(&event));
  ASSERT_TRUE(event.has_snapshot());
  EXPECT_EQ(event.snapshot().replica_id(), "a");
  EXPECT_EQ(event.snapshot().model(), "fake");
  EXPECT_EQ(event.snapshot().namespace_id().size(), 16u);
  EXPECT_NE(event.snapshot().namespace_seed(), 0u);
  EXPECT_EQ(event.snapshot().tokens_per_block(), 64u);
  const uint64_t incarnation = event.incarnation();
  uint64_t sequence = event.sequence();
  AskRight(Prompt(200));
  bool held = false, reported = false;
  while (!(held && reported) && reader->Read(&event)) {
    EXPECT_EQ(event.incarnation(), incarnation);
    EXPECT_EQ(event.sequence(), ++sequence);
    if (event.has_change()) held = held || event.change().held().block_hashes() == wanted;
    if (event.has_report()) {
      reported = event.report().healthy() && event.report().slots_total() == 2 &&
                 event.report().computed_tokens_total() == 200;
    }
  }
  EXPECT_TRUE(held && reported);
  context.TryCancel();
  (void)reader->Finish();
}

TEST_F(AgentServiceTest, TellsTheLongestPrefixHereAndInTheStore) {
  AskRight(Prompt(200));
  WaitStored(3);
  const std::string longer = Tokenize(Prompt(200) + Prompt(200, 3)).block_hashes();
  grpc::ClientContext context;
  rpc::LongestPrefixRequest request;
  request.set_block_hashes(longer);
  rpc::LongestPrefixReply reply;
  ASSERT_TRUE(stub_->LongestPrefix(&context, request, &reply).ok());
  EXPECT_EQ(reply.local_blocks(), 3u);
  EXPECT_EQ(reply.store_blocks(), 3u);
  grpc::ClientContext bad;
  request.set_block_hashes("short");
  EXPECT_EQ(stub_->LongestPrefix(&bad, request, &reply).error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(AgentServiceTest, TokenizingThenForwardingAsksTheEngineOnce) {
  EXPECT_EQ(Tokenize(Prompt(100)).token_count(), 100u);
  AskRight(Prompt(100));
  EXPECT_EQ(engine_->calls("tokenize"), 1);
  grpc::ClientContext context;
  rpc::TokenizeRequest request;
  request.set_path("/completion");
  request.set_body("[");
  rpc::TokenizeReply reply;
  EXPECT_EQ(stub_->Tokenize(&context, request, &reply).error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(AgentServiceTest, AHintIsAnsweredAtOnceWithBodyOrTokens) {
  AskRight(Prompt(200));
  WaitStored(3);
  const auto hint = [&](const rpc::PrefetchRequest& request) {
    grpc::ClientContext context;
    rpc::PrefetchReply reply;
    EXPECT_TRUE(stub_->Prefetch(&context, request, &reply).ok());
    return reply;
  };
  rpc::PrefetchRequest with_tokens;
  for (const char c : Prompt(128)) with_tokens.add_token_ids(static_cast<unsigned char>(c));
  with_tokens.set_tokens(128);
  store_->Set({.hold_gets = true});
  EXPECT_EQ(hint(with_tokens).outcome(), rpc::PrefetchReply::ACCEPTED);
  store_->Set({});
  WaitFor("the transfer",
          [&] { return Metric("ember_agent_prefetches_total{outcome=\"transferred\"}") == 1; });
  EXPECT_EQ(hint(with_tokens).outcome(), rpc::PrefetchReply::ALREADY_THERE);
  rpc::PrefetchRequest with_body;
  with_body.set_path("/completion");
  with_body.set_body("{\"prompt\":\"" + Prompt(200) + "\"}");
  with_body.set_tokens(192);
  EXPECT_EQ(hint(with_body).outcome(), rpc::PrefetchReply::ACCEPTED);
  with_body.set_path("/v1/embeddings");
  EXPECT_EQ(hint(with_body).outcome(), rpc::PrefetchReply::NOTHING);
  EXPECT_EQ(hint(with_body).reason(), "not for the cache");
}

TEST_F(AgentServiceTest, AnAddressInUseIsSaid) {
  const auto second = AgentServer::Listen({"127.0.0.1", server_->port()}, "a", *agent_);
  EXPECT_EQ(second.status().code(), StatusCode::kUnavailable);
}

}  // namespace
}  // namespace ember::agent
