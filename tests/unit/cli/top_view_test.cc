#include "client/cli/top_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ember::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

NodeSample Sample() {
  NodeSample node{.address = "127.0.0.1:7201", .status = {}, .node_id = "s1", .incarnation = 5};
  node.at = TimePoint(seconds(100));
  ShardSample shard;
  shard.memory_used = 512 << 20;
  shard.memory_capacity = 1 << 30;
  shard.hits = 1000;
  shard.misses = 1000;
  shard.get_bounds = {0.001, 0.01, 0.1};
  shard.get_buckets = {1'000'000, 0, 0, 0};
  node.shards = {shard};
  return node;
}

NodeSample Later() {
  NodeSample node = Sample();
  node.at += seconds(2);
  ShardSample& shard = node.shards[0];
  shard.hits += 75;
  shard.misses += 25;
  shard.bytes_in += 4 << 20;
  shard.bytes_out += 8 << 20;
  shard.evictions += 10;
  shard.get_buckets = {1'000'000, 98, 2, 0};
  return node;
}

TEST(TopView, RatesAreOfTheIntervalAlone) {
  const ShardRates rates = RatesOf(Sample(), Later(), 0);
  EXPECT_DOUBLE_EQ(rates.seconds, 2);
  EXPECT_DOUBLE_EQ(rates.hit_ratio, 0.75);
  EXPECT_DOUBLE_EQ(rates.in, 2 << 20);
  EXPECT_DOUBLE_EQ(rates.out, 4 << 20);
  EXPECT_DOUBLE_EQ(rates.evictions, 5);
  EXPECT_DOUBLE_EQ(rates.get_p99, 0.1) << "2 of 100 are slower than 10 ms";
}

TEST(TopView, NothingHappenedIsNotZeroPercent) {
  const ShardRates rates = RatesOf(
      Sample(),
      [] {
        NodeSample node = Sample();
        node.at += seconds(1);
        return node;
      }(),
      0);
  EXPECT_LT(rates.hit_ratio, 0);
  EXPECT_LT(rates.get_p99, 0);
  EXPECT_EQ(rates.out, 0);
}

// Its counters began anew: no rate, and no number of eighteen digits.
TEST(TopView, ARestartIsNoRate) {
  NodeSample restarted = Later();
  restarted.incarnation = 6;
  restarted.shards[0].hits = 0;
  EXPECT_EQ(RatesOf(Sample(), restarted, 0).seconds, 0);
  NodeSample gone = Later();
  gone.status = UnavailableError("refused");
  EXPECT_EQ(RatesOf(gone, Later(), 0).seconds, 0);
  EXPECT_EQ(RatesOf(Sample(), Later(), 1).seconds, 0) << "a shard that was not there";
}

TEST(TopView, TheTableHasARowAShardAndSaysWhoIsSilent) {
  NodeSample gone{.address = "127.0.0.1:9", .status = UnavailableError("refused"), .node_id = {}};
  const std::string table = TopTable({Sample(), gone}, {Later(), gone});
  EXPECT_THAT(table, HasSubstr("75.0%"));
  EXPECT_THAT(table, HasSubstr("2.0 MiB/s"));
  EXPECT_THAT(table, HasSubstr("#####..... 50% of 1.0 GiB"));
  EXPECT_THAT(table, HasSubstr("100 ms"));
  EXPECT_THAT(table, HasSubstr("none"));
  EXPECT_THAT(table, HasSubstr("127.0.0.1:9  unreachable: refused"));
  NodeSample degraded = Later();
  degraded.shards[0].disk_capacity = 1 << 30;
  degraded.shards[0].disk_degraded = true;
  EXPECT_THAT(TopTable({}, {degraded}), HasSubstr("DEGRADED"));
}

TEST(TopView, JsonLeavesOutWhatIsNotKnown) {
  const std::string first = TopJson({}, {Sample()});
  EXPECT_THAT(first, HasSubstr("\"memory_used_bytes\":536870912"));
  EXPECT_THAT(first, Not(HasSubstr("hit_ratio")));
  EXPECT_THAT(TopJson({Sample()}, {Later()}), HasSubstr("\"hit_ratio\":0.75"));
}

}  // namespace
}  // namespace ember::cli
