#include "kvstore/disk/region_header.h"

namespace ember::kv {
namespace {
constexpr uint32_t kRegionMagic = 0x47455245;  // "EREG"
}  // namespace

void Encode(const RegionHeader& header, MutableByteSpan block) {
  Bytes fields;
  ByteWriter writer(&fields);
  writer.Put(header.use.shard);
  writer.Put(header.use.region);
  writer.Put(header.use.generation);
  writer.Put(header.sequence);
  writer.Put(header.length);
  writer.PutRaw(header.owner);
  SealBlock(kRegionMagic, fields, block);
}

Result<RegionHeader> DecodeRegionHeader(ByteSpan block) {
  Result<ByteSpan> fields = OpenBlock(kRegionMagic, block, "region header");
  if (!fields.ok()) return fields.status();
  ByteReader reader(*fields);
  RegionHeader header;
  header.use.shard = reader.Get<uint32_t>();
  header.use.region = reader.Get<uint32_t>();
  header.use.generation = reader.Get<uint64_t>();
  header.sequence = reader.Get<uint64_t>();
  header.length = reader.Get<uint64_t>();
  const ByteSpan owner = reader.GetRaw(header.owner.size());
  std::memcpy(header.owner.data(), owner.data(), owner.size());
  return header;
}

}  // namespace ember::kv
