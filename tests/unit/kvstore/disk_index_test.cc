#include "kvstore/engine/disk_index.h"

#include <gtest/gtest.h>

#include <map>

#include "tests/unit/kvstore/test_segments.h"

namespace ember::kv::testing {
namespace {

SegmentRecord IndexedRecord(uint64_t number, uint32_t length = 1000) {
  return {.key = KeyOf(number),
          .generation = {number, 1},
          .payload_length = length,
          .header_length = 100};
}

TEST(DiskIndexTest, AnEntryIsSmall) { EXPECT_LE(sizeof(DiskEntry), 96u); }

TEST(DiskIndexTest, AgreesWithAMapOverManyChanges) {
  DiskIndex index;
  std::map<uint64_t, RegionId> model;
  SeededRandom random(5);
  std::vector<RegionId> regions;
  RegionId next_region = 0;
  for (int step = 0; step < 60000; ++step) {
    if (regions.size() < 8) {
      index.AddRegion(next_region, next_region);
      regions.push_back(next_region++);
    }
    const uint64_t number = random.Next() % 3000;
    const RegionId region = regions[random.Next() % regions.size()];
    switch (random.Next() % 8) {
      case 0:
        if (model.erase(number) > 0) index.Erase(KeyOf(number));
        break;
      case 1:
        if (step % 50 == 0) {
          size_t removed = 0;
          index.RemoveRegion(region, [&](const DiskEntry& entry) {
            ++removed;
            EXPECT_EQ(entry.region, region);
          });
          EXPECT_EQ(removed, std::erase_if(model, [&](auto& m) { return m.second == region; }));
          std::erase(regions, region);
        }
        break;
      default:
        EXPECT_EQ(index.Insert(IndexedRecord(number), region, number * 4096),
                  !model.contains(number));
        model.try_emplace(number, region);
    }
  }
  EXPECT_EQ(index.size(), model.size());
  EXPECT_EQ(index.live_bytes(), model.size() * 1100);
  for (uint64_t number = 0; number < 3000; ++number) {
    const DiskEntry* entry = index.Find(KeyOf(number));
    ASSERT_EQ(entry != nullptr, model.contains(number));
    if (entry == nullptr) continue;
    EXPECT_EQ(entry->region, model[number]);
    EXPECT_EQ(entry->record, IndexedRecord(number));
  }
  size_t walked = 0;
  for (size_t slot = 0; slot < index.slots(); ++slot) walked += index.At(slot) != nullptr;
  EXPECT_EQ(walked, model.size());
}

TEST(DiskIndexTest, TheColdestIsTheOldestUnlessOneWasUsed) {
  DiskIndex index;
  for (RegionId region = 0; region < 4; ++region) {
    index.AddRegion(region, 10 - region);  // region 3 is the oldest
    index.Insert(IndexedRecord(region), region, 4096);
  }
  EXPECT_EQ(index.Coldest(), std::nullopt);
  for (RegionId region = 0; region < 4; ++region) index.SetEvictable(region);
  EXPECT_EQ(index.Coldest(), RegionId{3});
  index.CountUse(*index.Find(KeyOf(3)));
  EXPECT_EQ(index.Coldest(), RegionId{2});
  {
    const RegionPin pin(&index, 2);
    EXPECT_EQ(index.Coldest(), RegionId{1});
  }
  for (int i = 0; i < 3; ++i) index.FadeHeat();
  EXPECT_EQ(index.Coldest(), RegionId{3});  // its use is forgotten
}

}  // namespace
}  // namespace ember::kv::testing
