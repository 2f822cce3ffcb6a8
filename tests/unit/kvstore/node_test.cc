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
  EXPECT_EQ(status->total.memory_capacity_bytes, 4u << 20);
  EXPECT_EQ(status->total.segments, 1u);
  EXPECT_EQ(status->total.hits, 1u);
  EXPECT_EQ(status->total.misses, 1u);
  EXPECT_EQ(status->total.connections, 1u);
  EXPECT_EQ(status->total.bytes_in, 1000u);
  EXPECT_EQ(status->total.bytes_out, 1000u);
  EXPECT_TRUE((*node)->alive());
}

TEST(NodeTest, ShardsServeSegmentsOfTheirOwnOnPortsThatEachOfThemNames) {
  NodeConfig config = SmallConfig();
  config.shards = 2;
  auto node = Node::Start(config);
  ASSERT_TRUE(node.ok()) << node.status().ToString();
  const std::vector<uint16_t> ports = {(*node)->shards()[0]->port(), (*node)->shards()[1]->port()};
  EXPECT_NE(ports[0], ports[1]);
  for (uint32_t shard = 0; shard < 2; ++shard) {
    auto client = RawClient::Greeted(ports[shard]);
    EXPECT_EQ(client->hello().shard_ports, ports);
    EXPECT_EQ(client->hello().shard, shard);
    EXPECT_EQ(client->hello().members[0].port, ports[0]);
    ASSERT_EQ(client->Put(MakeSegment(shard, 1000)), StatusCode::kOk);
    EXPECT_TRUE(IsPayloadOf(shard, client->GetOne(shard).payload));
    EXPECT_EQ(client->GetOne(1 - shard).reply.miss, MissReason::kNeverStored);
  }
  const Result<NodeStatus> status = (*node)->GetStatus(seconds(5));
  ASSERT_EQ(status->shards.size(), 2u);
  EXPECT_EQ(status->shards[1].segments, 1u);
  EXPECT_EQ(status->total.segments, 2u);
  EXPECT_EQ(status->total.memory_capacity_bytes, 4u << 20);
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
  EXPECT_EQ((*node)->GetStatus(seconds(5))->total.connections, 0u);
}

TEST(NodeTest, ARestartHasAnotherIncarnation) {
  const uint64_t first = (*Node::Start(SmallConfig()))->GetStatus(seconds(5))->incarnation;
  EXPECT_NE((*Node::Start(SmallConfig()))->GetStatus(seconds(5))->incarnation, first);
}

}  // namespace
}  // namespace ember::kv::testing
