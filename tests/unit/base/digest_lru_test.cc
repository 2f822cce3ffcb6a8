#include "proto/base/digest_lru.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "proto/base/bytes.h"

namespace ember::router {
namespace {

Checksum DigestOf(int i) { return Xxh3Of(AsBytes(std::to_string(i))); }

TEST(DigestLru, TheLeastRecentlyUsedGoesFirst) {
  DigestLru<int> lru;
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(lru.Put(DigestOf(i), i));
  ASSERT_NE(lru.Find(DigestOf(0)), nullptr);
  EXPECT_TRUE(lru.Contains(DigestOf(1))) << "which is no use";
  EXPECT_EQ(lru.Oldest(), 1);
  EXPECT_EQ(lru.DropOldest(), 1);
  EXPECT_FALSE(lru.Contains(DigestOf(1)));
  EXPECT_EQ(lru.DropOldest(), 2);
  EXPECT_EQ(lru.DropOldest(), 3);
  EXPECT_EQ(lru.DropOldest(), 0);
  EXPECT_TRUE(lru.empty());
}

TEST(DigestLru, WhatIsThereIsNotReplacedAndKeepsItsPlace) {
  DigestLru<std::unique_ptr<int>> lru;
  lru.Put(DigestOf(1), std::make_unique<int>(10));
  lru.Put(DigestOf(2), std::make_unique<int>(20));
  EXPECT_FALSE(lru.Put(DigestOf(1), std::make_unique<int>(11)));
  EXPECT_EQ(lru.size(), 2u);
  EXPECT_EQ(*lru.Oldest(), 10);
  **lru.Find(DigestOf(1)) = 12;
  EXPECT_EQ(*lru.DropOldest(), 20);
  EXPECT_EQ(*lru.DropOldest(), 12);
}

TEST(DigestLru, WhatIsDroppedLeavesNothingBehind) {
  DigestLru<int> lru;
  for (int i = 0; i < 3; ++i) lru.Put(DigestOf(i), i);
  EXPECT_TRUE(lru.Drop(DigestOf(0)));
  EXPECT_FALSE(lru.Drop(DigestOf(0)));
  EXPECT_EQ(lru.Find(DigestOf(0)), nullptr);
  EXPECT_EQ(lru.Oldest(), 1);
  EXPECT_TRUE(lru.Put(DigestOf(0), 7));
  EXPECT_EQ(*lru.Find(DigestOf(0)), 7);
  EXPECT_EQ(lru.Oldest(), 1);
  lru.Clear();
  EXPECT_EQ(lru.size(), 0u);
  EXPECT_TRUE(lru.Put(DigestOf(1), 1));
  EXPECT_EQ(lru.Oldest(), 1);
}

}  // namespace
}  // namespace ember::router
