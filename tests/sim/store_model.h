// StoreModel: what a simulated store's users have done so far, and what may be true because of it.
//
// A segment is a function of its number and its variant; so what a reader got is right or wrong
// whoever wrote it. Shared by all users of one store.
#pragma once

#include <set>

#include "tests/unit/kvstore/test_segments.h"

namespace ember::sim {

struct StoreModel {
  static constexpr uint64_t kVariants = 2;  // two writers may make different bytes for one key

  uint64_t keys = 40;
  size_t max_payload = 24 << 10;

  // Numbers whose commit was sent at some time; nothing else can be there.
  std::set<uint64_t> offered;
  // Acknowledged at level disk, so never missed again but for a busy node. For a store that has
  // room for all of them and no other disk than such as keep what they have synced.
  std::set<uint64_t> durable;

  uint64_t stored = 0;
  uint64_t hits = 0;
  uint64_t misses = 0;
  uint64_t broken = 0;  // exchanges that ended with their connection

  // From one byte on.
  size_t SizeOf(uint64_t number) const {
    SeededRandom random(number);
    return 1 + random.Next() % max_payload;
  }
  kv::testing::TestSegment Make(uint64_t number, uint64_t variant) const {
    return kv::testing::MakeSegment(number, SizeOf(number), variant);
  }
  // Fails the test when `payload`, read at `offset` of a segment with this header, isn't exactly
  // what was put under the number.
  void Check(uint64_t number, ByteSpan encoded_header, uint64_t offset, ByteSpan payload) const;
};

}  // namespace ember::sim
