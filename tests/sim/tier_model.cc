#include "tests/sim/tier_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace ember::sim {

TierModel::TierModel(const SimWallClock* wall_clock, uint64_t numbers, size_t max_payload)
    : wall_clock_(wall_clock), keys_(numbers) {
  for (uint64_t number = 0; number < numbers; ++number) {
    keys_[number].size = 1 + SeededRandom(number).Next() % max_payload;
    numbers_[KeyOf(number)] = number;
  }
}

std::vector<uint64_t> TierModel::AllNumbers() const {
  std::vector<uint64_t> all(keys_.size());
  std::iota(all.begin(), all.end(), 0);
  return all;
}

BlockKey TierModel::KeyOf(uint64_t number) const {
  return kv::testing::KeyOf(number, NamespaceOf(number));
}

kv::testing::TestSegment TierModel::NewSegment(uint64_t number) {
  Key& key = keys_[number];
  key.put_ms.push_back(wall_clock_->NowMs());
  return kv::testing::SegmentOf(number, NamespaceOf(number), TenantOf(number), key.size,
                                key.next_variant++);
}

void TierModel::CheckFound(uint64_t number, ByteSpan encoded_header, ByteSpan payload) {
  const Key& key = keys_[number];
  Result<SegmentHeader> header = DecodeSegmentHeader(encoded_header);
  ASSERT_TRUE(header.ok()) << header.status().ToString();
  const uint64_t variant = header->generation.low;
  ASSERT_LT(variant, key.next_variant) << "nobody has put that";
  const auto expected =
      kv::testing::SegmentOf(number, NamespaceOf(number), TenantOf(number), key.size, variant);
  ASSERT_EQ(*header, expected.header) << "another header than was put for " << number;
  ASSERT_TRUE(std::ranges::equal(payload, expected.payload)) << "wrong bytes for " << number;
  EXPECT_GE(variant, key.floor) << "segment " << number << " was purged and is back";
  if (NamespaceOf(number) == kShortLived) {
    EXPECT_LE(AgeOf(key, variant), kTtl + milliseconds(1))
        << "segment " << number << " should have expired";
  }
}

void TierModel::CheckMissed(uint64_t number, MissReason miss) const {
  const Key& key = keys_[number];
  if (lossy || !key.durable) return;
  // Whatever the reason: a start leaves out what has expired, and forgets why.
  if (NamespaceOf(number) == kShortLived && AgeOf(key, *key.durable) >= kTtl) return;
  ADD_FAILURE() << "segment " << number
                << " was acknowledged on disk and is lost: " << static_cast<int>(miss);
}

void TierModel::Acknowledged(uint64_t number, const GenerationId& generation) {
  keys_[number].durable = generation.low;
}

uint64_t TierModel::acknowledged() const {
  return static_cast<uint64_t>(
      std::ranges::count_if(keys_, [](const Key& key) { return key.durable.has_value(); }));
}

PurgeScope TierModel::ScopeOf(uint64_t number, bool by_tenant) const {
  if (by_tenant) return PurgeScope::OfTenant(TenantOf(number));
  return PurgeScope::OfNamespace(kv::testing::NamespaceOf(NamespaceOf(number)));
}

TierModel::Purge TierModel::BeginPurge(PurgeScope scope, uint64_t known) {
  epoch_ = std::max(epoch_, known) + 1;
  Purge purge{.scope = scope, .epoch = epoch_, .floors = {}};
  for (uint64_t number = 0; number < keys_.size(); ++number) {
    Key& key = keys_[number];
    if (!scope.Covers(KeyOf(number).ns, TenantHash(TenantOf(number)))) continue;
    purged_ += key.durable.has_value();
    purge.floors[number] = key.floor = key.next_variant;
    key.durable.reset();
  }
  return purge;
}

void TierModel::EndPurge(const Purge& purge) {
  for (const auto& [number, floor] : purge.floors) {
    keys_[number].durable_floor = std::max(keys_[number].durable_floor, floor);
  }
}

void TierModel::BeginRun(bool died) {
  if (!died) return;
  for (Key& key : keys_) key.floor = key.durable_floor;
}

void TierModel::Stored(const BlockKey& key, Tier tier, const GenerationId& generation) {
  auto number = numbers_.find(key);
  if (number == numbers_.end()) {
    EXPECT_TRUE(lossy) << "nobody has put this key";  // a damaged row of the catalog
  } else if (tier == Tier::kDisk) {
    EXPECT_GE(generation.low, keys_[number->second].floor) << "a purged segment is listed again";
  }
}

void TierModel::Removed(const BlockKey& key, Tier tier, const GenerationId& generation,
                        MissReason reason) {
  if (tier != Tier::kDisk || !numbers_.contains(key)) return;
  const uint64_t number = numbers_.at(key);
  Key& known = keys_[number];
  ++known.departures;
  if (known.durable != generation.low) return;
  const bool by_right = reason == MissReason::kEvicted || reason == MissReason::kPurged ||
                        reason == MissReason::kExpired;
  if (!lossy)
    EXPECT_TRUE(by_right) << "segment " << number << " left the disk: " << static_cast<int>(reason);
  known.durable.reset();
}

}  // namespace ember::sim
