// Readers of what lies on disk who go away at every step: while it is being read ahead, while it is
// sent, before anything was. Nothing they began may keep memory, and nobody's bytes may change.
#include <gtest/gtest.h>

#include <filesystem>

#include "client/io/sync.h"
#include "kvstore/node.h"
#include "tests/unit/kvstore/disk_fixture.h"
#include "tests/unit/kvstore/raw_client.h"
#include "tests/unit/support/eventually.h"

namespace ember::kv::testing {
namespace {

constexpr uint64_t kSegments = 64;
constexpr size_t kBytes = 100'000;
constexpr uint64_t kMemory = 2 << 20;  // of 6 MiB that are on disk

class PrefetchCancelTest : public ::testing::TestWithParam<io::Backend> {
 protected:
  void SetUp() override {
    if (GetParam() == io::Backend::kUring && !io::MakeLoop(io::Backend::kUring).ok()) {
      GTEST_SKIP() << "io_uring is refused here";
    }
    NodeConfig config;
    config.listen.port = 0;
    config.backend = GetParam();
    config.memory_bytes = kMemory;
    config.max_segment_bytes = 128 << 10;
    config.disk = DiskConfig{.directory = folder_.path() + "/data", .capacity_bytes = 64 << 20};
    auto node = Node::Start(config, [](const std::string&, std::string*) {
      return Result<std::unique_ptr<Catalog>>(std::make_unique<MemoryCatalog>());
    });
    ASSERT_TRUE(node.ok()) << node.status().ToString();
    node_ = *std::move(node);
    const auto client = Client();
    for (uint64_t n = 0; n < kSegments; ++n) {
      ASSERT_EQ(client->Put(MakeSegment(n, kBytes)), StatusCode::kOk);
      ASSERT_TRUE(
          Eventually([&] { return OnEngine([](auto& e) { return e.disk().size(); }) == n + 1; }));
    }
  }

  std::unique_ptr<RawClient> Client() {
    return RawClient::Greeted(node_->shards().front()->port());
  }
  uint64_t OnEngine(const std::function<uint64_t(ShardEngine&)>& read) {
    Shard& shard = *node_->shards().front();
    return *io::RunOnLoop<Result<uint64_t>>(
        shard.loop(), [&]() -> io::Task<Result<uint64_t>> { co_return read(shard.engine()); });
  }
  bool NothingIsHeld() {
    return Eventually([&] {
      return OnEngine([](ShardEngine& e) { return e.pinned() + e.leases() + e.attempts(); }) == 0;
    });
  }
  static Bytes GetAll(uint64_t first) {
    wire::Get get;
    for (uint64_t i = 0; i < kSegments; ++i) {
      get.items.push_back({KeyOf((first + i) % kSegments), 0, 0});
    }
    return wire::Encode(get);
  }

  TestFolder folder_;
  std::unique_ptr<Node> node_;
};
INSTANTIATE_TEST_SUITE_P(BackEnds, PrefetchCancelTest,
                         ::testing::Values(io::Backend::kUring, io::Backend::kEpoll),
                         DiskBackendName);

// C31
TEST_P(PrefetchCancelTest, C31_ReadersThatGoAwayAtEveryStepLeaveThePoolAsItWas) {
  for (uint64_t step = 0; step < 60; ++step) {
    // After so many replies; the even ones while further reads are under way, the others when the
    // node has had time to read all ahead that it will.
    const std::unique_ptr<RawClient> client = Client();
    ASSERT_TRUE(client->SendFrame(wire::FrameType::kGet, 1, GetAll(step * 7)));
    for (uint64_t i = 0; i < step / 2; ++i) {
      const std::optional<RawFrame> frame = client->ReadFrame();
      ASSERT_TRUE(frame) << step;
      ASSERT_TRUE(IsPayloadOf((step * 7 + i) % kSegments, frame->payload)) << step;
    }
    if (step % 2 == 1) LetTimePass(milliseconds(2));
    client->CloseAbruptly();
  }
  EXPECT_TRUE(NothingIsHeld());
  // All of the memory can be had by others, and what is on disk is as it was.
  const auto client = Client();
  for (uint64_t n = 1000; n < 1000 + 2 * kMemory / kBytes; ++n) {
    ASSERT_EQ(client->Put(MakeSegment(n, kBytes)), StatusCode::kOk) << n;
    ASSERT_TRUE(IsPayloadOf(n, client->GetOne(n).payload));
  }
  for (uint64_t n = 0; n < kSegments; ++n) {
    ASSERT_TRUE(IsPayloadOf(n, client->GetOne(n).payload)) << n;
  }
  EXPECT_TRUE(NothingIsHeld());
}

// C31: the whole node goes away while it reads for others.
TEST_P(PrefetchCancelTest, C31_AStopAmongReadsAheadIsClean) {
  std::vector<std::unique_ptr<RawClient>> clients;
  for (uint64_t i = 0; i < 8; ++i) {
    clients.push_back(Client());
    ASSERT_TRUE(clients.back()->SendFrame(wire::FrameType::kGet, 1, GetAll(i * 8)));
  }
  node_->Stop(milliseconds(GetParam() == io::Backend::kUring ? 0 : 5), seconds(5));
  node_.reset();
}

}  // namespace
}  // namespace ember::kv::testing
