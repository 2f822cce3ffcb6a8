#include "kvstore/memory/arena.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <map>

#include "proto/base/random.h"

namespace ember::kv {
namespace {

std::unique_ptr<Arena> MakeArena(uint64_t capacity, bool prealloc = false) {
  Result<std::unique_ptr<Arena>> arena = Arena::Make(capacity, prealloc);
  EXPECT_TRUE(arena.ok()) << arena.status().ToString();
  return *std::move(arena);
}

TEST(ArenaTest, HandsOutTheWholeCapacityAndNotAByteMore) {
  auto arena = MakeArena((64 << 10) + 100);  // rounded down
  EXPECT_EQ(arena->capacity(), 64u << 10);
  for (int i = 0; i < 16; ++i) ASSERT_TRUE(arena->Allocate(4096));
  EXPECT_EQ(arena->used(), arena->capacity());
  EXPECT_FALSE(arena->Allocate(1));
  EXPECT_FALSE(arena->Allocate(uint64_t{1} << 62));
  EXPECT_FALSE(arena->Allocate(0));
}

TEST(ArenaTest, RefusesLessThanAPage) {
  EXPECT_EQ(Arena::Make(4095, false).status().code(), StatusCode::kInvalid);
}

TEST(ArenaTest, MergesNeighboursWhateverTheOrderOfFreeing) {
  auto arena = MakeArena(64 << 10);
  std::vector<Extent> extents;
  for (int i = 0; i < 4; ++i) extents.push_back(*arena->Allocate(16 << 10));
  for (int i : {1, 3, 0, 2}) arena->Free(extents[i]);
  EXPECT_EQ(arena->space().holes(), 1u);
  EXPECT_TRUE(arena->Allocate(64 << 10));
}

TEST(ArenaTest, TakesTheSmallestHoleThatFits) {
  auto arena = MakeArena(64 << 10);
  const Extent large = *arena->Allocate(32 << 10);
  ASSERT_TRUE(arena->Allocate(4 << 10));
  const Extent small = *arena->Allocate(8 << 10);
  ASSERT_TRUE(arena->Allocate(20 << 10));
  arena->Free(large);
  arena->Free(small);
  EXPECT_EQ(arena->Allocate(8 << 10)->offset, small.offset);
}

TEST(ArenaTest, WhoIsHandedTheMemoryCanReadItAndNothingElse) {
  auto arena = MakeArena(64 << 10);
  const Extent extent = *arena->Allocate(4096);
  for (int round = 0; round < 2; ++round) {
    const int fd = *arena->ShareReadOnly();
    arena->At(extent)[0] = std::byte(40 + round);
    std::byte seen{};
    ASSERT_EQ(pread(fd, &seen, 1, static_cast<off_t>(extent.offset)), 1);
    EXPECT_EQ(seen, std::byte(40 + round));
    EXPECT_EQ(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), MAP_FAILED);
    // The file itself can be opened anew; the seals hold there, too.
    const int again = open(("/proc/self/fd/" + std::to_string(fd)).c_str(), O_RDWR);
    ASSERT_GE(again, 0);
    EXPECT_EQ(pwrite(again, "x", 1, 0), -1);
    EXPECT_EQ(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, again, 0), MAP_FAILED);
    EXPECT_EQ(ftruncate(again, 0), -1);
    EXPECT_EQ(ftruncate(again, 1 << 20), -1);
    EXPECT_EQ(fallocate(again, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096), -1);
    close(again);
    close(fd);
  }
}

TEST(ArenaTest, FreeingTwiceEndsTheProcess) {
  auto arena = MakeArena(64 << 10);
  const Extent extent = *arena->Allocate(4096);
  arena->Free(extent);
  EXPECT_DEATH(arena->Free(extent), "freed twice");
}

TEST(ArenaTest, PreallocMakesAllMemoryPresentAndUsable) {
  auto arena = MakeArena(1 << 20, /*prealloc=*/true);
  MutableByteSpan bytes = arena->At(*arena->Allocate(1 << 20));
  bytes.front() = bytes.back() = std::byte{7};
  EXPECT_EQ(bytes.size(), 1u << 20);
}

// Extents never overlap, contents stay, and everything comes back in one piece.
TEST(ArenaTest, RandomUseKeepsExtentsApart) {
  auto arena = MakeArena(8 << 20);
  SeededRandom random(1);
  std::map<uint64_t, std::pair<Extent, std::byte>> live;
  uint64_t used = 0;
  for (int step = 0; step < 20000; ++step) {
    if (random.Next() % 2 == 0) {
      auto extent = arena->Allocate(1 + random.Next() % (256 << 10));
      if (!extent) continue;
      const auto next = live.upper_bound(extent->offset);
      ASSERT_TRUE(next == live.end() || extent->end() <= next->first);
      ASSERT_TRUE(next == live.begin() || std::prev(next)->second.first.end() <= extent->offset);
      const auto mark = static_cast<std::byte>(random.Next());
      arena->At(*extent).front() = arena->At(*extent).back() = mark;
      live[extent->offset] = {*extent, mark};
      used += extent->length;
    } else if (!live.empty()) {
      auto it = live.lower_bound(random.Next() % arena->capacity());
      if (it == live.end()) it = live.begin();
      const auto [extent, mark] = it->second;
      ASSERT_EQ(arena->At(extent).front(), mark);
      ASSERT_EQ(arena->At(extent).back(), mark);
      arena->Free(extent);
      used -= extent.length;
      live.erase(it);
    }
    ASSERT_EQ(arena->used(), used);
  }
  for (const auto& [offset, extent] : live) arena->Free(extent.first);
  EXPECT_EQ(arena->space().holes(), 1u);
  EXPECT_EQ(arena->space().largest_hole(), arena->capacity());
}

}  // namespace
}  // namespace ember::kv
