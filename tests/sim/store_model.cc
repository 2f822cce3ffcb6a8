#include "tests/sim/store_model.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace ember::sim {

void StoreModel::Check(uint64_t number, ByteSpan encoded_header, uint64_t offset,
                       ByteSpan payload) const {
  EXPECT_TRUE(offered.contains(number)) << "nobody has put segment " << number;
  Result<SegmentHeader> header = DecodeSegmentHeader(encoded_header);
  ASSERT_TRUE(header.ok()) << header.status().ToString();
  const uint64_t variant = header->generation.low;
  ASSERT_LT(variant, kVariants);
  const kv::testing::TestSegment expected = Make(number, variant);
  EXPECT_EQ(*header, expected.header) << "another header than was put for segment " << number;
  ASSERT_LE(offset + payload.size(), expected.payload.size());
  EXPECT_TRUE(
      std::ranges::equal(payload, ByteSpan(expected.payload).subspan(offset, payload.size())))
      << "wrong bytes for segment " << number;
}

}  // namespace ember::sim
