// A node with a data directory, through its data plane: what an acknowledgement at the level disk
// promises, and what is there after a restart.
#include <gtest/gtest.h>

#include <filesystem>

#include "kvstore/node.h"
#include "tests/unit/kvstore/memory_catalog.h"
#include "tests/unit/kvstore/raw_client.h"
#include "tests/unit/support/temp_folder.h"

namespace ember::kv::testing {
namespace {

class NodeDiskTest : public ::testing::Test {
 protected:
  NodeDiskTest() {
    folder_ = MakeTempFolder();
    config_.listen.port = 0;
    config_.memory_bytes = 8 << 20;
    config_.max_segment_bytes = 1 << 20;
    config_.shards = 2;
    config_.disk = DiskConfig{.directory = folder_ + "/data", .capacity_bytes = 64 << 20};
  }
  ~NodeDiskTest() override { std::filesystem::remove_all(folder_); }

  Status Start() {
    Result<std::unique_ptr<Node>> node = Node::Start(
        config_, [](const std::string&, std::string*) -> Result<std::unique_ptr<Catalog>> {
          return std::unique_ptr<Catalog>(std::make_unique<MemoryCatalog>());
        });
    if (!node.ok()) return node.status();
    node_ = *std::move(node);
    client_ = RawClient::Greeted(node_->shards()[0]->port());
    return OkStatus();
  }
  // Without the time to write anything. The catalog is lost, too.
  void StopAtOnce() {
    client_.reset();
    node_->Stop(Duration::zero());
    node_.reset();
  }
  wire::ReserveReply Reserve(const std::vector<Bytes>& headers, AckLevel ack) {
    return client_->Call<wire::ReserveReply>(wire::FrameType::kReserve,
                                             Encode(wire::Reserve{headers, ack}));
  }
  AckLevel Put(uint64_t number, AckLevel ack) {
    const TestSegment segment = MakeSegment(number, 5000);
    const wire::ReserveEntry entry = Reserve({segment.encoded_header}, ack).entries.at(0);
    EXPECT_FALSE(entry.have);
    client_->Write(entry.token, 0, segment.payload);
    const auto reply = client_->Call<wire::CommitReply>(wire::FrameType::kCommit,
                                                        Encode(wire::Commit{{entry.token}, ack}));
    EXPECT_EQ(reply.entries.at(0).code, StatusCode::kOk);
    return reply.entries.at(0).level;
  }

  std::string folder_;
  NodeConfig config_;
  std::unique_ptr<Node> node_;
  std::unique_ptr<RawClient> client_;
};

TEST_F(NodeDiskTest, WhatIsAcknowledgedOnDiskIsThereAfterAStopWithoutGrace) {
  ASSERT_TRUE(Start().ok());
  std::vector<Bytes> headers;
  for (uint64_t i = 0; i < 20; ++i) {
    ASSERT_EQ(Put(i, AckLevel::kDisk), AckLevel::kDisk);
    headers.push_back(MakeSegment(i, 5000).encoded_header);
  }
  StopAtOnce();
  ASSERT_TRUE(Start().ok());
  EXPECT_EQ(node_->GetStatus(seconds(5))->total.disk_segments, 20u);
  for (const wire::ReserveEntry& entry : Reserve(headers, AckLevel::kDisk).entries) {
    EXPECT_TRUE(entry.have);
    EXPECT_EQ(entry.level, AckLevel::kDisk);
  }
  for (uint64_t i = 0; i < 20; ++i) EXPECT_TRUE(IsPayloadOf(i, client_->GetOne(i).payload));
}

TEST_F(NodeDiskTest, WhatIsInMemoryOnlyReachesTheDiskBeforeTheReplySaysSo) {
  config_.disk->policy = WritePolicy::kDemotion;  // nothing is written unasked
  ASSERT_TRUE(Start().ok());
  ASSERT_EQ(Put(1, AckLevel::kMemory), AckLevel::kMemory);
  ASSERT_EQ(Put(2, AckLevel::kMemory), AckLevel::kMemory);
  const std::vector<Bytes> header = {MakeSegment(1, 5000).encoded_header};
  const wire::ReserveEntry unasked = Reserve(header, AckLevel::kMemory).entries.at(0);
  EXPECT_TRUE(unasked.have);
  EXPECT_EQ(unasked.level, AckLevel::kMemory);
  EXPECT_EQ(node_->GetStatus(seconds(5))->total.disk_segments, 0u);
  EXPECT_EQ(Reserve(header, AckLevel::kDisk).entries.at(0).level, AckLevel::kDisk);
  EXPECT_EQ(node_->GetStatus(seconds(5))->total.disk_segments, 1u);
}

TEST_F(NodeDiskTest, ADirectoryOfAnotherNodeIsRefusedWithTheFlagAtFault) {
  ASSERT_TRUE(Start().ok());
  StopAtOnce();
  config_.node_id = "s2";
  const Status status = Start();
  EXPECT_EQ(status.code(), StatusCode::kMismatch);
  EXPECT_NE(status.message().find("--data"), std::string::npos);
}

TEST_F(NodeDiskTest, ADirectoryIsOneProcesss) {
  ASSERT_TRUE(Start().ok());
  NodeConfig second = config_;
  const Status status = Node::Start(second).status();
  EXPECT_EQ(status.code(), StatusCode::kBusy);
}

}  // namespace
}  // namespace ember::kv::testing
