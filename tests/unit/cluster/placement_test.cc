#include "client/cluster/placement.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "proto/base/random.h"

namespace ember::cluster {
namespace {

constexpr int kGroups = 30'000;

View ViewOf(std::vector<wire::Member> members) {
  for (size_t i = 0; i < members.size(); ++i) {
    members[i].host = "h";
    members[i].port = static_cast<uint16_t>(i + 1);
  }
  Result<View> view = CheckedView(1, std::move(members));
  EXPECT_TRUE(view.ok()) << view.status().ToString();
  return *std::move(view);
}

View ViewOfSize(int n) {
  std::vector<wire::Member> members;
  for (int i = 0; i < n; ++i) members.push_back({.id = "store-" + std::to_string(i)});
  return ViewOf(std::move(members));
}

std::vector<BlockHash> Groups() {
  SeededRandom random(7);
  std::vector<BlockHash> groups(kGroups);
  for (BlockHash& group : groups) {
    const uint64_t words[2] = {random.Next(), random.Next()};
    std::memcpy(group.bytes.data(), words, sizeof words);
  }
  return groups;
}

std::vector<std::string> OwnerIds(const View& view, const BlockHash& group, size_t copies) {
  std::vector<std::string> ids;
  for (size_t i : Owners(view, NamespaceId{}, group, copies)) ids.push_back(view.members[i].id);
  return ids;
}

// Within five standard deviations of the binomial share.
void ExpectShare(int count, double share, const std::string& who) {
  const double mean = kGroups * share;
  EXPECT_NEAR(count, mean, 5 * std::sqrt(mean * (1 - share))) << who;
}

TEST(Placement, SpreadsFirstAndSecondOwnersEvenly) {
  const View view = ViewOfSize(8);
  std::map<std::string, int> first, second;
  for (const BlockHash& group : Groups()) {
    const auto ids = OwnerIds(view, group, 2);
    ASSERT_EQ(ids.size(), 2u);
    ASSERT_NE(ids[0], ids[1]);
    ++first[ids[0]];
    ++second[ids[1]];
  }
  for (const wire::Member& member : view.members) {
    ExpectShare(first[member.id], 1.0 / 8, member.id);
    ExpectShare(second[member.id], 1.0 / 8, member.id);
  }
}

TEST(Placement, FollowsWeights) {
  const View view = ViewOf({{.id = "a", .weight = 1},
                            {.id = "b", .weight = 2},
                            {.id = "c", .weight = 5},
                            {.id = "idle", .weight = 0}});
  std::map<std::string, int> first;
  for (const BlockHash& group : Groups()) ++first[OwnerIds(view, group, 1).at(0)];
  ExpectShare(first["a"], 1.0 / 8, "a");
  ExpectShare(first["b"], 2.0 / 8, "b");
  ExpectShare(first["c"], 5.0 / 8, "c");
  EXPECT_EQ(first.count("idle"), 0u);
}

TEST(Placement, AddingAMemberMovesOnlyItsShare) {
  const View before = ViewOfSize(8);
  const View after = ViewOfSize(9);
  int moved = 0;
  for (const BlockHash& group : Groups()) {
    const auto old_owners = OwnerIds(before, group, 2);
    const auto new_owners = OwnerIds(after, group, 2);
    if (old_owners == new_owners) continue;
    ++moved;
    ASSERT_NE(std::ranges::find(new_owners, "store-8"), new_owners.end());
    // The others keep their order.
    ASSERT_EQ(new_owners[0] == "store-8" ? new_owners[1] : new_owners[0], old_owners[0]);
  }
  ExpectShare(moved, 2.0 / 9, "moved");
}

TEST(Placement, RemovingAMemberMovesOnlyWhatItOwned) {
  const View before = ViewOfSize(5);
  const View after = ViewOfSize(4);
  for (const BlockHash& group : Groups()) {
    const auto old_owners = OwnerIds(before, group, 2);
    const auto new_owners = OwnerIds(after, group, 2);
    if (std::ranges::find(old_owners, "store-4") == old_owners.end()) {
      ASSERT_EQ(old_owners, new_owners);
    } else {
      ASSERT_EQ(new_owners[0], old_owners[0] == "store-4" ? old_owners[1] : old_owners[0]);
    }
  }
}

TEST(Placement, SpreadsOverZonesWhileThereAreUnusedOnes) {
  const View view = ViewOf({{.id = "a", .zone = "x"},
                            {.id = "b", .zone = "x"},
                            {.id = "c", .zone = "y"},
                            {.id = "d", .zone = "y"}});
  for (const BlockHash& group : Groups()) {
    const auto owners = Owners(view, NamespaceId{}, group, 3);
    ASSERT_EQ(owners.size(), 3u);
    ASSERT_NE(view.members[owners[0]].zone, view.members[owners[1]].zone);
  }
}

TEST(Placement, NeverGivesMoreOwnersThanMembers) {
  EXPECT_EQ(Owners(ViewOfSize(2), NamespaceId{}, BlockHash{}, 5).size(), 2u);
  EXPECT_TRUE(Owners(View{}, NamespaceId{}, BlockHash{}, 2).empty());
}

TEST(Placement, ShardsShareTheGroupsEvenlyWhoeverOwnsThem) {
  constexpr size_t kShards = 3, kGroups = 30'000;
  std::array<size_t, kShards> of_all{}, of_one_owner{};
  const View view = ViewOfSize(4);
  for (size_t i = 0; i < kGroups; ++i) {
    BlockHash group;
    std::memcpy(group.bytes.data(), &i, sizeof i);
    const size_t shard = ShardOf(NamespaceId{}, group, kShards);
    ASSERT_LT(shard, kShards);
    ++of_all[shard];
    of_one_owner[shard] += Owners(view, NamespaceId{}, group, 1)[0] == 0;
    EXPECT_EQ(ShardOf(NamespaceId{}, group, 1), 0u);
  }
  for (size_t shard = 0; shard < kShards; ++shard) {
    EXPECT_NEAR(static_cast<double>(of_all[shard]), kGroups / 3.0, 500);
    EXPECT_NEAR(static_cast<double>(of_one_owner[shard]), kGroups / 12.0, 300);
  }
}

// Every process must compute the same owners, in every version: the vectors come from an
// independent script.
TEST(Placement, GoldenVectors) {
  std::ifstream file("tests/vectors/placement.json");
  ASSERT_TRUE(file) << "run from the source root";
  const auto vectors = nlohmann::json::parse(file);
  size_t checked = 0;
  for (const auto& c : vectors["cases"]) {
    std::vector<wire::Member> members;
    for (const auto& m : c["members"]) {
      members.push_back({.id = m["id"], .weight = m["weight"], .zone = m["zone"]});
    }
    const View view = ViewOf(std::move(members));
    for (const auto& g : c["groups"]) {
      NamespaceId ns;
      BlockHash placement;
      ASSERT_TRUE(FromHex(g["namespace"].get<std::string>(), ns.bytes).ok());
      ASSERT_TRUE(FromHex(g["placement"].get<std::string>(), placement.bytes).ok());
      std::vector<std::string> ids;
      for (size_t i : Owners(view, ns, placement, c["copies"])) ids.push_back(view.members[i].id);
      EXPECT_EQ(ids, g["owners"].get<std::vector<std::string>>()) << c["name"];
      ++checked;
    }
  }
  EXPECT_GE(checked, 96u);
}

}  // namespace
}  // namespace ember::cluster
