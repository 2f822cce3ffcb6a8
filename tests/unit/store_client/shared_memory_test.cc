// The client on the node's own host: segments are read in the node's memory, in place or copied
// out, with right bytes or a miss whatever becomes of lease, node and client.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include "client/io/sync.h"
#include "client/store_client/hashed_copy.h"
#include "kvstore/node.h"
#include "kvstore/server/arena_door.h"
#include "proto/wire/arena_offer.h"
#include "tests/unit/store_client/client_fixture.h"
#include "tests/unit/support/temp_folder.h"

namespace ember::testing {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

constexpr Duration kLease = seconds(30);

class SharedMemoryTest : public ::testing::TestWithParam<io::Backend> {
 protected:
  void SetUp() override {
    if (!ClientFixture::Available(GetParam())) GTEST_SKIP() << "the system has no such back end";
    folder_ = MakeTempFolder();
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  // On the port it had before, if any.
  void StartNode(uint64_t memory = 64 << 20) {
    kv::NodeConfig config;
    config.listen = {"127.0.0.1", port_};
    config.memory_bytes = memory;
    config.max_segment_bytes = 4 << 20;
    config.backend = GetParam();
    config.shm_dir = folder_;
    Result<std::unique_ptr<kv::Node>> node = kv::Node::Start(config);
    ASSERT_TRUE(node.ok()) << node.status().ToString();
    node_ = *std::move(node);
    port_ = node_->shards()[0]->port();
  }
  StoreClientOptions Options() {
    return {.seeds = {{"127.0.0.1", port_}},
            .backend = GetParam(),
            .copies = 1,
            .back_off_max = milliseconds(200),
            .metrics = &metrics_};
  }
  std::unique_ptr<StoreClient> Connect() { return ClientFixture::Connect(Options()); }

  static InPlaceResult GetInPlace(const Oracle& chain, StoreClient& client,
                                  Duration lease = kLease) {
    std::vector<InPlaceRequest> requests;
    for (size_t i = 0; i < chain.size(); ++i)
      requests.push_back({chain.refs()[i], chain.tokens(i)});
    return client.GetInPlace(requests, chain.layout(), seconds(10), lease);
  }
  static bool Right(const Oracle& chain, size_t i, ByteSpan payload) {
    return std::ranges::equal(payload, Oracle::Payload(chain.refs()[i].key, chain.payload_bytes()));
  }
  uint64_t Pinned() {
    kv::Shard& shard = *node_->shards()[0];
    return *io::RunOnLoop<Result<uint64_t>>(
        shard.loop(), [&]() -> io::Task<Result<uint64_t>> { co_return shard.engine().pinned(); });
  }
  uint64_t BytesSent() { return node_->GetStatus(seconds(10))->total.bytes_out; }
  uint64_t BytesMapped() {
    return metrics_.AddCounter("ember_client_mapped_bytes_total", "").value();
  }

  std::string folder_;
  uint16_t port_ = 0;
  MetricsRegistry metrics_;
  std::unique_ptr<kv::Node> node_;
};
INSTANTIATE_TEST_SUITE_P(BackEnds, SharedMemoryTest,
                         ::testing::Values(io::Backend::kEpoll, io::Backend::kUring), BackendName);

TEST(HashedCopyTest, EveryCopyIsExactAndHashed) {
  for (const size_t count : {1, 7, 40}) {
    std::vector<Bytes> from, to;
    for (size_t i = 0; i < count; ++i) {
      from.push_back(Oracle::Payload({}, count == 7 ? i : (1 << 20) + i));  // none, few, large
      to.emplace_back(from[i].size());
    }
    std::vector<HashedCopy> copies;
    for (size_t i = 0; i < count; ++i) copies.push_back({from[i], to[i]});
    RunCopies(copies);
    for (size_t i = 0; i < count; ++i) {
      EXPECT_EQ(to[i], from[i]);
      EXPECT_EQ(copies[i].checksum, Xxh3Of(from[i]));
    }
  }
}

TEST_P(SharedMemoryTest, AGetCopiesOutOfTheNodesMemoryByItself) {
  StartNode();
  const auto client = Connect();
  uint64_t bytes = 0;
  for (const auto& [seed, segments, size] :
       {std::tuple{1, 300, 1000}, {2, 20, 1 << 20}, {3, 1, 1}}) {
    const Oracle chain(seed, segments, size);
    chain.Put(*client);
    const auto load = chain.Get(*client);
    EXPECT_EQ(load.result.usable, chain.size());
    EXPECT_EQ(load.wrong, 0u);
    bytes += segments * size;
    EXPECT_EQ(load.result.bytes, segments * size);
  }
  EXPECT_EQ(BytesMapped(), bytes);
  EXPECT_EQ(BytesSent(), 0u);
  EXPECT_TRUE(Eventually([&] { return Pinned() == 0; }));
}

TEST_P(SharedMemoryTest, AMissStaysAMiss) {
  StartNode();
  const auto client = Connect();
  const Oracle chain(1, 4, 1000), absent(2, 1, 1000);
  chain.Put(*client);
  std::vector<Bytes> buffers(5, Bytes(1000));
  std::vector<GetRequest> requests;
  for (size_t i = 0; i < 5; ++i) {
    const Oracle& from = i == 2 ? absent : chain;
    const size_t at = i == 2 ? 0 : i > 2 ? i - 1 : i;
    requests.push_back({from.refs()[at], from.tokens(at), buffers[i]});
  }
  requests[1].buffer = requests[1].buffer.first(999);  // another layout in mind
  const GetResult got = client->Get(requests, chain.layout(), seconds(10));
  EXPECT_EQ(got.usable, 1u);
  EXPECT_EQ(got.misses[1], MissReason::kLayoutDiffers);
  EXPECT_EQ(got.misses[2], MissReason::kNeverStored);
  EXPECT_TRUE(Eventually([&] { return Pinned() == 0; }));
}

TEST_P(SharedMemoryTest, SegmentsInPlaceStayUntilTheLastHandleGoes) {
  StartNode();
  const auto client = Connect();
  const Oracle chain(1, 10, 300'000);
  chain.Put(*client);
  InPlaceResult got = GetInPlace(chain, *client);
  EXPECT_TRUE(got.status.ok()) << got.status.ToString();
  ASSERT_EQ(got.usable, chain.size());
  for (size_t i = 0; i < chain.size(); ++i) {
    ASSERT_TRUE(got.segments[i].held());
    EXPECT_TRUE(Right(chain, i, got.segments[i].payload()));
    EXPECT_EQ(got.segments[i].header().key, chain.refs()[i].key);
    EXPECT_TRUE(got.segments[i].Verify().ok());
    EXPECT_GT(got.segments[i].deadline(), SteadyClock().Now());
  }
  EXPECT_EQ(Pinned(), chain.size());
  MappedSegment last = std::move(got.segments[3]);
  EXPECT_FALSE(got.segments[3].held());
  got.segments.clear();
  EXPECT_EQ(Pinned(), chain.size());  // one lease for all of the call
  last = MappedSegment();
  EXPECT_TRUE(Eventually([&] { return Pinned() == 0; }));
  EXPECT_EQ(BytesSent(), 0u);
}

// The release goes along with the next request to the node.
TEST_P(SharedMemoryTest, ManyReadsInARowLeaveNothingPinned) {
  StartNode();
  const auto client = Connect();
  const Oracle chain(1, 1, 100'000);
  chain.Put(*client);
  for (int i = 0; i < 300; ++i) {
    const InPlaceResult got = GetInPlace(chain, *client);
    ASSERT_EQ(got.usable, 1u);
    ASSERT_TRUE(Right(chain, 0, got.segments[0].payload()));
  }
  EXPECT_TRUE(Eventually([&] { return Pinned() == 0; }));
}

TEST_P(SharedMemoryTest, HandlesOutliveClientAndNode) {
  StartNode();
  auto client = Connect();
  const Oracle chain(1, 3, 100'000), other(2, 3, 100'000);
  chain.Put(*client);
  other.Put(*client);
  InPlaceResult got = GetInPlace(chain, *client);
  ASSERT_EQ(got.usable, 3u);
  EXPECT_EQ(GetInPlace(other, *client).usable, 3u);
  // What was given back by then is told to the node, and what is held stays in place.
  client.reset();
  EXPECT_TRUE(Eventually([&] { return Pinned() == 3; }));
  node_.reset();
  EXPECT_TRUE(Right(chain, 0, got.segments[0].payload()));
  EXPECT_TRUE(got.segments[2].Verify().ok());
}

// C1: after the lease the node may put other bytes there, and the reader can tell.
TEST_P(SharedMemoryTest, AfterItsDeadlineAPlaceIsReusedAndVerifySaysSo) {
  StartNode(8 << 20);
  const auto client = Connect();
  const Oracle chain(1, 1, 1 << 20);
  chain.Put(*client);
  const InPlaceResult got = GetInPlace(chain, *client, milliseconds(1));
  ASSERT_EQ(got.usable, 1u);
  EXPECT_TRUE(Eventually([&] { return Pinned() == 0; }));
  EXPECT_LE(got.segments[0].deadline(), SteadyClock().Now());
  uint32_t seed = 2;
  EXPECT_TRUE(Eventually([&] {
    Oracle(seed++, 1, 1 << 20).Put(*client);
    return got.segments[0].Verify().code() == StatusCode::kCorrupt;
  }));
}

TEST_P(SharedMemoryTest, ANodeThatComesBackIsMappedAnew) {
  StartNode();
  const auto client = Connect();
  const Oracle chain(1, 5, 100'000);
  chain.Put(*client);
  const InPlaceResult before = GetInPlace(chain, *client);
  ASSERT_EQ(before.usable, 5u);
  node_.reset();
  EXPECT_EQ(chain.Get(*client).result.usable, 0u);
  StartNode();
  EXPECT_TRUE(Eventually([&] { return chain.Put(*client)[0].copies == 1; }));
  const uint64_t mapped = BytesMapped();
  const auto load = chain.Get(*client);
  EXPECT_EQ(load.result.usable, 5u);
  EXPECT_EQ(load.wrong, 0u);
  EXPECT_EQ(BytesMapped() - mapped, 500'000u);
  EXPECT_TRUE(before.segments[0].Verify().ok());
}

TEST_P(SharedMemoryTest, WithoutAccessAllIsSentAndInPlaceSaysWhy) {
  StartNode();
  std::filesystem::remove(folder_ + "/" + wire::ArenaSocketName("s1", 0));
  const Oracle chain(1, 5, 100'000);
  for (const bool map : {true, false}) {
    StoreClientOptions options = Options();
    options.map_memory = map;
    const auto client = ClientFixture::Connect(options);
    chain.Put(*client);
    const auto load = chain.Get(*client);
    EXPECT_EQ(load.result.usable, 5u);
    EXPECT_EQ(load.wrong, 0u);
    const InPlaceResult got = GetInPlace(chain, *client);
    EXPECT_EQ(got.status.code(), StatusCode::kUnavailable);
    EXPECT_THAT(std::string(got.status.message()), HasSubstr(map ? folder_ : "s1"));
    EXPECT_THAT(got.misses, Each(MissReason::kLostNode));
    EXPECT_EQ(got.segments.size(), 5u);
    EXPECT_FALSE(got.segments[0].held());
  }
  EXPECT_EQ(BytesMapped(), 0u);
  EXPECT_EQ(BytesSent(), 1'000'000u);
}

// Eviction all the time, short deadlines, leases over their bound: right bytes or a miss.
TEST_P(SharedMemoryTest, ReadersUnderEvictionGetOnlyWhatWasPut) {
  StartNode(8 << 20);
  const auto client = Connect();
  std::atomic<size_t> wrong = 0, right = 0;
  std::vector<std::thread> threads;
  for (uint32_t t = 0; t < 6; ++t) {
    threads.emplace_back([&, t] {
      for (uint32_t round = 0; round < 40; ++round) {
        const Oracle chain((t + round) % 10, 8, 150'000);
        chain.Put(*client);
        const Duration timeout = round % 3 == 0 ? milliseconds(2) : seconds(10);
        const auto load = chain.Get(*client, timeout);
        wrong += load.wrong;
        right += load.result.usable;
        const InPlaceResult got = GetInPlace(chain, *client);
        for (size_t i = 0; i < chain.size(); ++i) {
          if (!got.segments[i].held()) continue;
          (Right(chain, i, got.segments[i].payload()) ? right : wrong) += 1;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0u);
  EXPECT_GT(right, 500u);
  EXPECT_TRUE(Eventually([&] { return Pinned() == 0; }));
}

// A node that lies about places; what it hands over is real memory.
class LyingNodeTest : public SharedMemoryTest {
 protected:
  void SetUp() override {
    SharedMemoryTest::SetUp();
    if (folder_.empty()) return;
    scripted_.StartNodes(1);
    ScriptedNode& node = *scripted_.nodes[0];
    memory_ = *kv::Arena::Make(kCapacity, false);
    std::vector<kv::SharedArena> arenas;
    arenas.push_back({io::FileDescriptor(*memory_->ShareReadOnly()), kCapacity});
    door_ = *kv::ArenaDoor::Open({folder_, node.id(), node.incarnation()}, std::move(arenas),
                                 &metrics_);
    node.set_shm_path(door_->path(0));
  }

  static constexpr uint64_t kCapacity = 1 << 20;
  ClientFixture scripted_{GetParam()};
  std::unique_ptr<kv::Arena> memory_;
  std::unique_ptr<kv::ArenaDoor> door_;
};
INSTANTIATE_TEST_SUITE_P(BackEnds, LyingNodeTest,
                         ::testing::Values(io::Backend::kEpoll, io::Backend::kUring), BackendName);

TEST_P(LyingNodeTest, PlacesOutsideOfTheMemoryAreNotRead) {
  const auto client = scripted_.Connect();
  const Oracle chain(1, 1, 4096);
  chain.Put(*client);
  for (const wire::ArenaPlace& place : {wire::ArenaPlace{kCapacity - 4095, 4096},
                                        {kCapacity + 1, 4096},
                                        {~uint64_t{0} - 100, 4096},
                                        {0, ~uint64_t{0}},
                                        {uint64_t{1} << 60, 0}}) {
    scripted_.nodes[0]->set_place(place);
    EXPECT_EQ(chain.Get(*client).result.misses[0], MissReason::kLostNode);
    EXPECT_EQ(GetInPlace(chain, *client).misses[0], MissReason::kLostNode);
    scripted_.nodes[0]->set_place(std::nullopt);
    EXPECT_TRUE(Eventually([&] { return chain.Get(*client).result.usable == 1; }));  // it lives
  }
}

TEST_P(LyingNodeTest, OtherBytesOrAnotherLengthAreAMissAndTheLeaseGoesBack) {
  const auto client = scripted_.Connect();
  const Oracle chain(1, 1, 4096);
  chain.Put(*client);
  ScriptedNode& node = *scripted_.nodes[0];
  node.set_place(wire::ArenaPlace{0, 4096});  // zeros
  EXPECT_EQ(chain.Get(*client).result.misses[0], MissReason::kCorrupt);
  EXPECT_TRUE(Eventually([&] { return node.corrupt_reports == 1; }));
  EXPECT_EQ(GetInPlace(chain, *client).segments[0].Verify().code(), StatusCode::kCorrupt);
  node.set_place(wire::ArenaPlace{0, 4095});
  EXPECT_EQ(chain.Get(*client).result.misses[0], MissReason::kLayoutDiffers);
  EXPECT_EQ(GetInPlace(chain, *client).misses[0], MissReason::kCorrupt);
  EXPECT_TRUE(Eventually([&] { return node.releases == 4; }));
}

TEST_P(LyingNodeTest, APlaceThatWasNotAskedForBreaksTheConnection) {
  StoreClientOptions options = scripted_.Options();
  options.map_memory = false;
  const auto client = scripted_.Connect(options);
  const Oracle chain(1, 1, 4096);
  chain.Put(*client);
  scripted_.nodes[0]->set_place(wire::ArenaPlace{0, 4096});
  EXPECT_EQ(chain.Get(*client).result.misses[0], MissReason::kLostNode);
}

}  // namespace
}  // namespace ember::testing
