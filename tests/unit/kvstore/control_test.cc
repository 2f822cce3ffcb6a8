// The node's gRPC and HTTP doors.
#include <gmock/gmock.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <future>

#include "kvstore/node.h"
#include "kvstore/server/admin_http.h"
#include "kvstore/server/control_service.h"
#include "proto/rpc/store.grpc.pb.h"
#include "tests/unit/kvstore/raw_client.h"

namespace ember::kv::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

class ControlTest : public ::testing::Test {
 protected:
  void SetUp() override {
    NodeConfig config;
    config.listen.port = 0;
    config.memory_bytes = 4 << 20;
    config.max_segment_bytes = 1 << 20;
    node_ = *Node::Start(config);
  }
  ControlSources Sources() {
    return {.status = [this](Duration d) { return node_->GetStatus(d); },
            .shards = node_->doors(),
            .metrics = &node_->metrics()};
  }
  std::unique_ptr<ControlService> StartControl() {
    return *ControlService::Start({"127.0.0.1", 0}, Sources());
  }
  static std::shared_ptr<grpc::Channel> Channel(uint16_t port) {
    return grpc::CreateChannel("127.0.0.1:" + std::to_string(port),
                               grpc::InsecureChannelCredentials());
  }
  static void SetDeadline(grpc::ClientContext* context) {
    context->set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
  }
  // The status number of grpc.health.v1.HealthCheckResponse (field 1: 1 serving, 2 not), for the
  // whole server; -1 on failure.
  static int Health(uint16_t port) {
    grpc::GenericStub stub(Channel(port));
    grpc::ClientContext context;
    SetDeadline(&context);
    const grpc::Slice nothing("");
    const grpc::ByteBuffer request(&nothing, 1);
    grpc::ByteBuffer reply;
    std::promise<grpc::Status> done;
    stub.UnaryCall(&context, "/grpc.health.v1.Health/Check", grpc::StubOptions(), &request, &reply,
                   [&](grpc::Status status) { done.set_value(std::move(status)); });
    if (!done.get_future().get().ok()) return -1;
    grpc::Slice slice;
    if (!reply.DumpToSingleSlice(&slice).ok() || slice.size() != 2 || slice.begin()[0] != 8)
      return -1;
    return slice.begin()[1];
  }

  std::unique_ptr<Node> node_;
};

TEST_F(ControlTest, StatusIsTheNodesOwn) {
  auto client = RawClient::Greeted(io::Endpoint::Parse(node_->data_address())->port);
  ASSERT_EQ(client->Put(MakeSegment(1, 1000)), StatusCode::kOk);
  auto control = StartControl();
  auto stub = rpc::StoreControl::NewStub(Channel(control->port()));
  grpc::ClientContext context;
  SetDeadline(&context);
  rpc::StoreStatus reply;
  const grpc::Status status = stub->GetStatus(&context, {}, &reply);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(reply.node_id(), "s1");
  EXPECT_EQ(reply.version(), EMBER_VERSION);
  EXPECT_EQ(reply.segments(), 1u);
  EXPECT_EQ(reply.data_address(), node_->data_address());
  EXPECT_EQ(reply.bytes_in(), 1000u);
  ASSERT_EQ(reply.members_size(), 1);
  EXPECT_EQ(reply.members(0).address(), node_->data_address());
}

TEST_F(ControlTest, HealthFollowsSetServing) {
  auto control = StartControl();
  EXPECT_EQ(Health(control->port()), 1);
  control->SetServing(false);
  EXPECT_EQ(Health(control->port()), 2);
}

TEST_F(ControlTest, ANodeThatDoesNotAnswerIsADeadlineNotAHang) {
  ControlSources sources = Sources();
  sources.status = [](Duration) -> Result<NodeStatus> {
    return DeadlineError("the node's thread does not answer");
  };
  auto control = ControlService::Start({"127.0.0.1", 0}, sources);
  auto stub = rpc::StoreControl::NewStub(Channel((*control)->port()));
  grpc::ClientContext context;
  SetDeadline(&context);
  rpc::StoreStatus reply;
  const grpc::Status status = stub->GetStatus(&context, {}, &reply);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_EQ(status.error_message(), "the node's thread does not answer");
}

TEST_F(ControlTest, TwoServersDoNotShareAPort) {
  auto control = StartControl();
  auto second = ControlService::Start({"127.0.0.1", control->port()}, Sources());
  EXPECT_EQ(second.status().code(), StatusCode::kUnavailable);
}

TEST_F(ControlTest, AdminServesMetricsAndHealth) {
  std::atomic<bool> alive{true};
  auto admin = AdminHttp::Start({"127.0.0.1", 0}, &node_->metrics(), [&] { return alive.load(); });
  ASSERT_TRUE(admin.ok()) << admin.status().ToString();
  auto get = [&](const std::string& path, const std::string& method = "GET") {
    RawClient client((*admin)->port());
    client.SendBytes(
        AsBytes(method + " " + path + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"));
    return client.ReadUntilClosed();
  };
  EXPECT_THAT(get("/healthz"), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(get("/metrics"),
              HasSubstr("ember_store_memory_capacity_bytes{shard=\"0\"} 4194304\n"));
  EXPECT_THAT(get("/nothing"), StartsWith("HTTP/1.1 404"));
  EXPECT_THAT(get("/metrics", "POST"), StartsWith("HTTP/1.1 405"));
  alive = false;
  EXPECT_THAT(get("/healthz"), StartsWith("HTTP/1.1 503"));
  auto second =
      AdminHttp::Start({"127.0.0.1", (*admin)->port()}, &node_->metrics(), [] { return true; });
  EXPECT_EQ(second.status().code(), StatusCode::kUnavailable);
}

}  // namespace
}  // namespace ember::kv::testing
