#include "router/stores/store_feed.h"

#include <gtest/gtest.h>

namespace ember::router {
namespace {

BlockHash Hash(uint8_t n) {
  BlockHash hash;
  hash.bytes.fill(std::byte{n});
  return hash;
}

using Kind = StoreEvent::Kind;

class StoreFeedTest : public testing::Test {
 protected:
  static StoreEvent Snapshot(uint32_t shard, uint32_t shards) {
    return {.kind = Kind::kSnapshot, .shard = shard, .shard_count = shards};
  }
  static StoreEvent Of(Kind kind, uint32_t shard, uint8_t n, Tier tier = Tier::kMemory) {
    return {.kind = kind, .shard = shard, .tier = tier, .key = {NamespaceId{}, Hash(n)}};
  }
  static StoreEvent Current(uint32_t shard) { return {.kind = Kind::kCurrent, .shard = shard}; }
  // Blocks of the chain 1, 2, 3, 4 that the stores have together.
  uint32_t Stored() {
    return index.Lookup(std::vector{Hash(1), Hash(2), Hash(3), Hash(4)}).store_blocks;
  }

  PrefixIndex index{PrefixIndexOptions{.presume_stored = false}};
  StoreFeed feed{index, {"a:1", "b:1"}};
};

TEST_F(StoreFeedTest, AChainIsSpreadOverNodesAndShards) {
  feed.OnEvents(0,
                {Snapshot(0, 2), Of(Kind::kStored, 0, 1), Snapshot(1, 2), Of(Kind::kStored, 1, 2)});
  feed.OnEvents(1, {Snapshot(0, 1), Of(Kind::kStored, 0, 3, Tier::kDisk)});
  EXPECT_EQ(Stored(), 3u);
  feed.OnEvents(1, {Of(Kind::kStored, 0, 4), Of(Kind::kRemoved, 0, 3, Tier::kDisk)});
  EXPECT_EQ(Stored(), 2u) << "behind a hole";
}

TEST_F(StoreFeedTest, OneTierLeavesTheOther) {
  feed.OnEvents(0, {Snapshot(0, 1), Of(Kind::kStored, 0, 1), Of(Kind::kStored, 0, 1, Tier::kDisk),
                    Of(Kind::kRemoved, 0, 1)});
  EXPECT_EQ(Stored(), 1u);
  feed.OnEvents(0, {Of(Kind::kRemoved, 0, 1, Tier::kDisk)});
  EXPECT_EQ(Stored(), 0u);
}

TEST_F(StoreFeedTest, ACopyOnAnotherNodeOutlivesALostOne) {
  for (StoreNumber n : {0, 1}) feed.OnEvents(n, {Snapshot(0, 1), Of(Kind::kStored, 0, 1)});
  feed.OnLost(0, UnavailableError("gone"));
  EXPECT_EQ(Stored(), 1u);
  feed.OnLost(1, UnavailableError("gone"));
  EXPECT_EQ(Stored(), 0u);
  EXPECT_EQ(feed.Report()[1].why, "unavailable: gone");
  // Events of a shard whose snapshot has not come mean nothing.
  feed.OnEvents(0, {Of(Kind::kStored, 0, 1)});
  EXPECT_EQ(Stored(), 0u);
}

TEST_F(StoreFeedTest, ASnapshotReplacesItsShardAndAnotherShardCountTheRest) {
  feed.OnEvents(0,
                {Snapshot(0, 2), Of(Kind::kStored, 0, 1), Snapshot(1, 2), Of(Kind::kStored, 1, 2)});
  feed.OnEvents(0, {Snapshot(0, 1), Of(Kind::kStored, 0, 2)});
  EXPECT_EQ(Stored(), 0u);
  EXPECT_EQ(feed.Report()[0].segments, 1u);
}

TEST_F(StoreFeedTest, IsCurrentWhenEveryShardOfEveryNodeIs) {
  feed.OnEvents(0, {Snapshot(0, 2), Current(0)});
  EXPECT_FALSE(feed.Report()[0].current);
  feed.OnEvents(0, {Snapshot(1, 2), Current(1)});
  EXPECT_TRUE(feed.Report()[0].current);
  EXPECT_FALSE(feed.current());
  feed.OnEvents(1, {Snapshot(0, 1), Current(0)});
  EXPECT_TRUE(feed.current());
  feed.OnLost(0, UnavailableError("gone"));
  EXPECT_FALSE(feed.current());
}

}  // namespace
}  // namespace ember::router
