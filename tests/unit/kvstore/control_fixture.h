// ControlFixture: a node of two shards with its gRPC door, which can be restarted on the same
// ports.
#pragma once

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include "kvstore/node.h"
#include "kvstore/server/control_service.h"
#include "tests/unit/kvstore/test_segments.h"
#include "tests/unit/support/eventually.h"
#include "tests/unit/support/loopback.h"

namespace ember::kv::testing {

class ControlFixture : public ::testing::Test {
 protected:
  static constexpr uint16_t kDataPort = 7101;  // and the next, of the second shard
  static constexpr uint16_t kGrpcPort = 7201;

  void SetUp() override {
    config_.listen = {OwnLoopbackAddress(), kDataPort};
    config_.memory_bytes = 32 << 20;
    config_.max_segment_bytes = 8 << 20;
    config_.shards = 2;
    StartNode();
  }
  void TearDown() override { StopNode(); }

  void StartNode() {
    Result<std::unique_ptr<Node>> node = Node::Start(config_);
    ASSERT_TRUE(node.ok()) << node.status().ToString();
    node_ = *std::move(node);
    auto control =
        ControlService::Start({config_.listen.host, kGrpcPort},
                              {.status = [this](Duration d) { return node_->GetStatus(d); },
                               .shards = node_->doors(),
                               .metrics = &node_->metrics()});
    ASSERT_TRUE(control.ok()) << control.status().ToString();
    control_ = *std::move(control);
  }
  void StopNode() {
    control_.reset();
    node_.reset();
  }

  std::string address() const { return config_.listen.host + ":" + std::to_string(kGrpcPort); }
  std::shared_ptr<grpc::Channel> Channel() const {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);  // a connection of its own
    return grpc::CreateCustomChannel(address(), grpc::InsecureChannelCredentials(), arguments);
  }
  static void SetDeadline(grpc::ClientContext* context, int patience_s = 20) {
    context->set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(patience_s));
  }
  uint64_t SumOf(uint64_t (*read)(ShardEngine&)) {
    uint64_t sum = 0;
    for (const ShardDoor& door : node_->doors()) {
      sum += *AskShard<uint64_t>(door, seconds(20), [read](ShardEngine& engine) {
        return Result<uint64_t>(read(engine));
      });
    }
    return sum;
  }
  uint64_t Attempts() {
    return SumOf([](ShardEngine& engine) -> uint64_t { return engine.attempts(); });
  }
  uint64_t Pinned() {
    return SumOf([](ShardEngine& engine) -> uint64_t { return engine.pinned(); });
  }
  uint64_t Segments() {
    return SumOf([](ShardEngine& engine) -> uint64_t { return engine.segments(); });
  }

  NodeConfig config_;
  std::unique_ptr<Node> node_;
  std::unique_ptr<ControlService> control_;
};

inline SegmentRef RefOf(uint64_t number) {
  const SegmentHeader header = MakeSegment(number, 1).header;
  return {.key = header.key,
          .placement = header.placement,
          .first_block = header.first_block,
          .block_count = header.block_count,
          .proof = header.proof};
}

}  // namespace ember::kv::testing
