#include "kvstore/disk/region_footer.h"

namespace ember::kv {
namespace {

constexpr uint32_t kFooterMagic = 0x52544645;   // "EFTR"
constexpr uint32_t kTrailerMagic = 0x4c525445;  // "ETRL"
constexpr size_t kFooterHead = 8;
constexpr size_t kEntryBytes = 8 + kSegmentRecordBytes;
constexpr size_t kMaxRecords = 1 << 24;

}  // namespace

uint64_t FooterBytes(size_t records) {
  return RoundUpToBlocks(kFooterHead + kEntryBytes * records);
}

Bytes EncodeFooter(std::span<const PlacedRecord> records) {
  Bytes out;
  out.reserve(kFooterHead + kEntryBytes * records.size());
  ByteWriter writer(&out);
  writer.Put(kFooterMagic);
  writer.Put(static_cast<uint32_t>(records.size()));
  for (const PlacedRecord& record : records) {
    writer.Put(record.offset);
    Put(&writer, record.segment);
  }
  return out;
}

Result<std::vector<PlacedRecord>> DecodeFooter(ByteSpan footer, const Checksum& checksum) {
  if (Xxh3Of(footer) != checksum) return CorruptError("region footer: checksum differs");
  ByteReader reader(footer);
  if (reader.Get<uint32_t>() != kFooterMagic) return CorruptError("region footer: not one");
  std::vector<PlacedRecord> records(reader.GetCount(kMaxRecords, kEntryBytes));
  for (PlacedRecord& record : records) {
    record.offset = reader.Get<uint64_t>();
    record.segment = GetSegmentRecord(&reader);
  }
  EMBER_RETURN_IF_ERROR(reader.Finish("region footer"));
  return records;
}

void Encode(const RegionTrailer& trailer, MutableByteSpan block) {
  Bytes fields;
  ByteWriter writer(&fields);
  writer.Put(trailer.use.shard);
  writer.Put(trailer.use.region);
  writer.Put(trailer.use.generation);
  writer.Put(trailer.footer_offset);
  writer.Put(trailer.footer_length);
  writer.PutRaw(trailer.checksum);
  SealBlock(kTrailerMagic, fields, block);
}

Result<RegionTrailer> DecodeRegionTrailer(ByteSpan block, uint64_t region_bytes) {
  Result<ByteSpan> fields = OpenBlock(kTrailerMagic, block, "region trailer");
  if (!fields.ok()) return fields.status();
  ByteReader reader(*fields);
  RegionTrailer trailer;
  trailer.use.shard = reader.Get<uint32_t>();
  trailer.use.region = reader.Get<uint32_t>();
  trailer.use.generation = reader.Get<uint64_t>();
  trailer.footer_offset = reader.Get<uint64_t>();
  trailer.footer_length = reader.Get<uint64_t>();
  const ByteSpan checksum = reader.GetRaw(trailer.checksum.size());
  std::memcpy(trailer.checksum.data(), checksum.data(), checksum.size());
  if (trailer.footer_offset % kBlockBytes != 0 || trailer.footer_offset > region_bytes ||
      trailer.footer_length > region_bytes - trailer.footer_offset) {
    return CorruptError("region trailer: points outside its region");
  }
  return trailer;
}

}  // namespace ember::kv
