// Everything fixed on disk: it decodes to what was encoded, and a flipped bit anywhere is told.
#include <gtest/gtest.h>

#include "kvstore/disk/catalog_row.h"
#include "kvstore/disk/identity.h"
#include "kvstore/disk/purge_record.h"
#include "kvstore/disk/region.h"
#include "kvstore/disk/region_footer.h"
#include "kvstore/disk/region_header.h"
#include "tests/unit/kvstore/test_segments.h"

namespace ember::kv::testing {
namespace {

SegmentRecord RecordOf(uint64_t number) {
  return {.key = KeyOf(number),
          .generation = {number, 9},
          .tenant_hash = 77,
          .purge_epoch = 5,
          .created_ms = 1764500000000,
          .payload_length = 12345,
          .header_length = 321};
}

// `decode` must refuse the bytes with any one bit changed.
template <typename Decode>
void ExpectEveryFlipTold(Bytes bytes, Decode decode) {
  for (size_t bit = 0; bit<bytes.size() * 8; bit += bytes.size()> 1024 ? 7 : 1) {
    bytes[bit / 8] ^= std::byte{1} << (bit % 8);
    EXPECT_FALSE(decode(bytes)) << "bit " << bit;
    bytes[bit / 8] ^= std::byte{1} << (bit % 8);
  }
  EXPECT_TRUE(decode(bytes));
}

TEST(DiskFormatTest, RecordHead) {
  const RecordHead head{.use = {3, 17, 0xfeed},
                        .offset = 8192,
                        .segment = RecordOf(1),
                        .checksum = Xxh3Of(AsBytes("payload"))};
  Bytes block(kBlockBytes);
  Encode(head, block);
  EXPECT_EQ(*DecodeRecordHead(block), head);
  EXPECT_EQ(head.body_bytes(), 16384u);
  ExpectEveryFlipTold(block, [](ByteSpan b) { return DecodeRecordHead(b).ok(); });
}

TEST(DiskFormatTest, RegionHeaderAndTrailer) {
  Bytes block(kBlockBytes);
  const RegionHeader header{
      .use = {0, 1, 2}, .sequence = 3, .length = 1 << 20, .owner = Identity{"c", "n", 1}.Digest()};
  Encode(header, block);
  EXPECT_EQ(*DecodeRegionHeader(block), header);
  ExpectEveryFlipTold(block, [](ByteSpan b) { return DecodeRegionHeader(b).ok(); });
  RegionTrailer trailer{
      .use = {0, 1, 2}, .footer_offset = 1 << 19, .footer_length = 4000, .checksum = {}};
  Encode(trailer, block);
  EXPECT_EQ(*DecodeRegionTrailer(block, 1 << 20), trailer);
  ExpectEveryFlipTold(block, [](ByteSpan b) { return DecodeRegionTrailer(b, 1 << 20).ok(); });
  EXPECT_FALSE(DecodeRegionTrailer(block, (1 << 19) + 3999).ok());  // it would reach past the end
  trailer.footer_length = UINT64_MAX;
  Encode(trailer, block);
  EXPECT_FALSE(DecodeRegionTrailer(block, 1 << 20).ok());
}

// The catalog takes a sealed region's rows for all that it has. So it must not hear "sealed" while
// the sync of some record, and with it that record's row, is still to come.
TEST(DiskFormatTest, ARegionIsSealedToTheCatalogWhenItsLastRecordIsDurable) {
  Region region{.state = Region::State::kSealed, .end = 65536, .unfinished = {8192}};
  EXPECT_FALSE(region.Row().sealed);
  EXPECT_EQ(region.Row().catalogued, 8192u);
  region.unfinished.clear();
  EXPECT_TRUE(region.Row().sealed);
  EXPECT_EQ(region.Row().catalogued, 65536u);
}

TEST(DiskFormatTest, Footer) {
  const std::vector<PlacedRecord> records = {{4096, RecordOf(1)}, {40960, RecordOf(2)}};
  const Bytes footer = EncodeFooter(records);
  const Checksum checksum = Xxh3Of(footer);
  EXPECT_EQ(*DecodeFooter(footer, checksum), records);
  EXPECT_LE(footer.size(), FooterBytes(2));
  ExpectEveryFlipTold(footer, [&](ByteSpan b) { return DecodeFooter(b, checksum).ok(); });
  // With the right checksum, too, a count must be that of the bytes.
  Bytes lying = footer;
  lying[4] = std::byte{200};
  EXPECT_FALSE(DecodeFooter(lying, Xxh3Of(lying)).ok());
}

TEST(DiskFormatTest, Identity) {
  const Identity identity{"prod", "s7", 4};
  const std::string text = EncodeIdentity(identity);
  EXPECT_EQ(*DecodeIdentity(text), identity);
  const Bytes bytes(AsBytes(text).begin(), AsBytes(text).end());
  ExpectEveryFlipTold(bytes, [](ByteSpan b) { return DecodeIdentity(AsString(b)).ok(); });
  EXPECT_FALSE(DecodeIdentity("").ok());
  EXPECT_FALSE(DecodeIdentity(text + "more\n").ok());
}

TEST(DiskFormatTest, Purges) {
  const PurgeRecord tenant{PurgeScope::OfTenant("t"), 4, 100};
  const PurgeRecord ns{PurgeScope::OfNamespace(KeyOf(1).ns), 5, 200};
  Bytes journal;
  for (const PurgeRecord& record : {tenant, ns}) {
    const auto encoded = Encode(record);
    journal.insert(journal.end(), encoded.begin(), encoded.end());
  }
  journal.resize(4096);  // reserved space
  PurgeList list = DecodePurges(journal);
  EXPECT_EQ(list.records, (std::vector{tenant, ns}));
  EXPECT_EQ(list.damaged, 0u);
  EXPECT_EQ(list.end, 128u);
  Bytes two(journal.begin(), journal.begin() + 128);
  ExpectEveryFlipTold(two, [](ByteSpan b) { return DecodePurges(b).damaged == 0; });
  two.resize(100);  // cut within the second: it was never acknowledged
  EXPECT_EQ(DecodePurges(two).records, std::vector{tenant});
  EXPECT_EQ(DecodePurges(two).damaged, 0u);
}

TEST(DiskFormatTest, CatalogRows) {
  std::map<uint32_t, CatalogContents> contents;
  const CatalogRegion region{.generation = 8, .sequence = 9, .catalogued = 4096, .sealed = true};
  ASSERT_TRUE(AddRow(RegionRowKey(1, 2), EncodeRow(region), &contents).ok());
  ASSERT_TRUE(AddRow(RecordRowKey(1, 2, 4096), EncodeRow(RecordOf(3)), &contents).ok());
  EXPECT_EQ(contents[1].regions[2].row, region);
  EXPECT_EQ(contents[1].regions[2].records, (std::vector{PlacedRecord{4096, RecordOf(3)}}));
  EXPECT_FALSE(AddRow("", "", &contents).ok());
  EXPECT_FALSE(AddRow("12345678", "short", &contents).ok());
  EXPECT_FALSE(AddRow(RecordRowKey(1, 2, 3), std::string(200, 'x'), &contents).ok());
  // A region's row comes first, its records after it, then the next region.
  EXPECT_LT(RegionRowKey(1, 2), RecordRowKey(1, 2, 0));
  EXPECT_LT(RecordRowKey(1, 2, UINT64_MAX), RegionRowKey(1, 3));
}

}  // namespace
}  // namespace ember::kv::testing
