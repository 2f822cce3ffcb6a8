// What is kept of a holder's blocks beside the index, which is bounded.
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "router/events/removed_blocks.h"
#include "router/events/repeated_blocks.h"

namespace ember::router {
namespace {

BlockHash RememberedName(uint64_t word) {
  BlockHash name{};
  std::memcpy(name.bytes.data(), &word, sizeof word);
  return name;
}

// A place that several share is that of the last one that was removed.
TEST(RemovedBlocks, OneThatComesBackLeavesOthersWhereTheyAre) {
  constexpr uint64_t kAsFar = uint64_t{1} << 32;  // at one place, whatever their number
  const std::vector<BlockHash> chain{RememberedName(7), RememberedName(7 + kAsFar)};
  RemovedBlocks removed;
  EXPECT_EQ(removed.Before(chain, 2), 2u);
  removed.Add(chain[1]);
  EXPECT_EQ(removed.Before(chain, 2), 1u);
  removed.Erase({&chain[0], 1});
  EXPECT_EQ(removed.Before(chain, 2), 1u) << "it was not removed";
  EXPECT_EQ(removed.Before(chain, 1), 1u) << "nobody asks for it";
  removed.Erase({&chain[1], 1});
  EXPECT_EQ(removed.Before(chain, 2), 2u);
}

TEST(RepeatedBlocks, TheOldestMakeRoom) {
  RepeatedBlocks repeated;
  constexpr uint64_t kMore = 10;
  const uint64_t all = RepeatedBlocks::kMost + kMore;
  std::vector<EngineKey> keys;
  for (uint64_t i = 0; i < all; ++i) {
    keys.push_back(EngineKey{i + 1});
    const BlockHash name = RememberedName(i);
    repeated.Remember(std::nullopt, {&keys.back(), 1}, {&name, 1});
    if (i == 0) repeated.OnRemoved(keys);
  }
  EXPECT_FALSE(repeated.any_removed()) << "it is forgotten with all that is known of it";
  repeated.OnRemoved(keys);
  for (uint64_t i = 0; i < all; ++i) {
    EXPECT_EQ(repeated.Removed(keys[i]).has_value(), i >= kMore) << i;
    EXPECT_EQ(repeated.Removed(RememberedName(i)).has_value(), i >= kMore) << i;
  }
  repeated.OnStored({&keys.back(), 1});
  EXPECT_FALSE(repeated.Removed(keys.back())) << "it is there again";
}

}  // namespace
}  // namespace ember::router
