#include "kvstore/node.h"

#include <gtest/gtest.h>

#include "tests/unit/kvstore/raw_client.h"

namespace ember::kv::testing {
namespace {

NodeConfig SmallConfig() {
  NodeConfig config;
  config.listen.port = 0;
  config.memory_bytes = 4 << 20;
  config.max_segment_bytes = 1 << 20;
  return config;
}

uint16_t PortOf(const Node& node) { return io::Endpoint::Parse(node.data_address())->port; }

TEST(NodeTest, DescribesItself) {
  auto node = Node::Start(SmallConfig());
  ASSERT_TRUE(node.ok()) << node.status().ToString();
  auto client = RawClient::Greeted(PortOf(**node));
  ASSERT_EQ(client->Put(MakeSegment(1, 1000)), StatusCode::kOk);
  client->GetOne(1);
  client->GetOne(2);
  const Result<NodeStatus> status = (*node)->GetStatus(seconds(5));
  ASSERT_TRUE(status.ok());
  EXPECT_EQ(status->node_id, "s1");
  EXPECT_NE(status->incarnation, 0u);
  EXPECT_EQ(status->memory_capacity_bytes, 4u << 20);
  EXPECT_EQ(status->segments, 1u);
  EXPECT_EQ(status->hits, 1u);
  EXPECT_EQ(status->misses, 1u);
  EXPECT_EQ(status->connections, 1u);
  EXPECT_EQ(status->bytes_in, 1000u);
  EXPECT_EQ(status->bytes_out, 1000u);
  EXPECT_TRUE((*node)->alive());
}

TEST(NodeTest, APortInUseIsAClearError) {
  auto first = Node::Start(SmallConfig());
  NodeConfig second = SmallConfig();
  second.listen.port = PortOf(**first);
  const Status status = Node::Start(second).status();
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_NE(status.message().find("--listen"), std::string::npos);
  EXPECT_NE(status.message().find("in use"), std::string::npos);
}

TEST(NodeTest, AnswersForItselfWhenItHasStopped) {
  auto node = Node::Start(SmallConfig());
  (*node)->Stop(milliseconds(100));
  (*node)->Stop(milliseconds(100));
  EXPECT_EQ((*node)->GetStatus(seconds(5))->connections, 0u);
}

TEST(NodeTest, ARestartHasAnotherIncarnation) {
  const uint64_t first = (*Node::Start(SmallConfig()))->GetStatus(seconds(5))->incarnation;
  EXPECT_NE((*Node::Start(SmallConfig()))->GetStatus(seconds(5))->incarnation, first);
}

}  // namespace
}  // namespace ember::kv::testing
